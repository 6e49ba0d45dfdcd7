"""The display of texts, times and colours."""

from __future__ import annotations

import json
import re

import pytest
from tracline.schemas.time import NS
from tracline.stream.console import formatting
from tracline.stream.console.templates import FOLDER

from ....support.console_store import START


def test_long_text_is_cut_and_marked() -> None:
    """A text shows its first characters and how many more there are."""
    html = formatting.shown("é" * (formatting.TEXT_SHOWN_MAX + 1234))
    assert html.count("é") == formatting.TEXT_SHOWN_MAX
    assert "… 1,234 more characters" in html


def test_times_are_shown_shortly() -> None:
    """A stretch of time shows its two largest units; an instant is there to the nanosecond."""
    assert [formatting.apart(s * NS) for s in (0, 2, 61, 3725, 200_000, -5)] == [
        "0.0 s", "2.0 s", "1 min 1 s", "1 h 2 min", "2 d 7 h", "-5.0 s",
    ]  # fmt: skip
    assert formatting.when(START + 5) == (
        '<time datetime="2026-02-17T12:00:00.000000005Z" title="2026-02-17T12:00:00.000000005Z">'
        "2026-02-17 12:00:00</time>"
    )
    assert formatting.when(5) == '<span class="quiet">no times</span>'


@pytest.mark.parametrize(
    "value",
    [
        {"to": ["é", {}, [], {"a": [1, None, True]}], "note": 'a "b", {c}: [d] \\'},
        [[{"a": {"b": []}}], "x", -1.5e-9],
        [" ", "\n\t", "\u202e", ":,"],
    ],
)
def test_json_is_laid_out_in_lines(value: object) -> None:
    """Long JSON has a member a line, as Python writes it; short JSON and other text stay as they are."""
    padded = [value, "x" * formatting.LINE_MAX]
    laid_out = json.dumps(padded, indent=2, ensure_ascii=False)
    for text in (json.dumps(padded), json.dumps(padded, separators=(",", ":")), json.dumps(padded, indent=9)):
        assert formatting.laid_out(text) == laid_out
        assert formatting.laid_out(text[:-1]) == text[:-1]
    assert (
        formatting.laid_out(json.dumps(value)[: formatting.LINE_MAX])
        == json.dumps(value)[: formatting.LINE_MAX]
    )


def test_what_is_laid_out_is_what_was_judged() -> None:
    """No key that stands twice is left out, and no number is written in another way."""
    pad = "x" * formatting.LINE_MAX
    text = f'{{"sum": 1.10, "sum": 1e999, "id": 12345678901234567890123, "pad": "{pad}"}}'
    assert re.sub(r"\s+", " ", formatting.laid_out(text)) == text.replace("{", "{ ").replace("}", " }")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_background(theme: str) -> None:
    """Every colour of text has a contrast of 4.5 (WCAG 2, AA) against every background it stands on."""
    css = (FOLDER / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[["light", "dark"].index(theme)]))
    texts = ("ink", "quiet", "link", "violated", "unmet", "unjudged", "good")
    for text in texts:
        for background in ("paper", "raised", "mark"):
            lighter, darker = sorted(map(luminance, (colours[text], colours[background])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (text, background)


def luminance(colour: str) -> float:
    """The relative luminance of a colour (WCAG 2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
