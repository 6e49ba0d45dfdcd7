"""The decisions in docs/decisions: each has its parts, and the index lists each once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ...support.markdown import anchor

FOLDER = Path(__file__).parents[3] / "docs" / "decisions"
INDEX = FOLDER / "README.md"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path != INDEX)
WRITE = bool(os.environ.get("TRACLINE_WRITE_SNAPSHOTS"))
TITLE = re.compile(r"^## (\d{4}-\d\d-\d\d) · (.+)$", re.MULTILINE)

INTRODUCTION = """The decisions by subject, in each file the oldest first.
Each entry has a date, the decision, the reason and the rejected alternatives.
A decision that a later one supersedes names it."""


def index() -> str:
    """Return the text of the index for the pages as they are."""
    lines = ["# Decisions", "", INTRODUCTION]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines += ["", f"## [{text.splitlines()[0].removeprefix('# ')}]({page.name})", ""]
        for date, title in TITLE.findall(text):
            lines.append(f"- {date} · [{title}]({page.name}#{anchor(f'{date} · {title}')})")
    return "\n".join(lines) + "\n"


def test_the_index_lists_every_decision() -> None:
    """The index has a line for each decision; `TRACLINE_WRITE_SNAPSHOTS=1` writes it."""
    if WRITE:
        INDEX.write_text(index(), encoding="utf-8")
    assert INDEX.read_text(encoding="utf-8") == index()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_decisions_have_their_parts(page: Path) -> None:
    """Each decision of a page has a date, a title, the decision and the reason; the dates ascend."""
    text = page.read_text(encoding="utf-8")
    entries = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(TITLE.findall(text))
    assert [
        entry.splitlines()[0] for entry in entries if "**Decision.**" not in entry or "**Why.**" not in entry
    ] == []
    dates = [date for date, _ in TITLE.findall(text)]
    assert dates == sorted(dates)
