"""The catalogue of shipped rules, `docs/rules.md`, agrees with the packs."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tracline.rules.model.printer import to_text
from tracline.rules.model.rule import Rule, SliceKey
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.verdict import Severity

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
REWRITE = bool(os.environ.get("TRACLINE_WRITE_SNAPSHOTS"))


def test_the_catalogue_is_in_step_with_the_packs() -> None:
    """The page has every shipped rule as its pack has it; TRACLINE_WRITE_SNAPSHOTS=1 rewrites it."""
    rules = load_packs(shipped_packs()).rules
    packs = {name: [rule for rule in rules if rule.pack == name] for name in shipped_packs()}
    introduction = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    page = "\n".join(
        [introduction, *(line for name, pack_rules in packs.items() for line in section(name, pack_rules))]
    )
    if REWRITE:
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8")


def section(pack: str, rules: list[Rule]) -> list[str]:
    """A pack: its rules in a table, most severe first, and each in full."""
    order = sorted(rules, key=lambda rule: (-Severity(rule.severity).rank, rule.id))
    rows = [f"| [`{rule.id}`](#{rule.id}) | {rule.severity.value} | {rule.title} |" for rule in order]
    lines = [f"## {pack}", "", "| rule | severity | what must hold |", "|---|---|---|", *rows, ""]
    return lines + [line for rule in order for line in in_full(rule)]


def in_full(rule: Rule) -> list[str]:
    """A rule as the page has it."""
    settings = {
        "formula": " ".join(rule.text.split()),
        "for each": None if rule.for_each is None else key(rule.for_each),
        "steps": None if rule.steps is None else to_text(rule.steps),
        "applies to": None if rule.applies_to is None else to_text(rule.applies_to),
    }
    shown = [f"{name}: {text}" for name, text in settings.items() if text is not None]
    return [
        f"### {rule.id}",
        "",
        f"{rule.title}.",
        f"Severity: {rule.severity.value}.",
        "",
        *("```text", *shown, "```", ""),
        *sentences(f"**Why.** {rule.why}"),
        "",
        *sentences(f"**Blind spots.** {rule.blind_spots}"),
        *([] if rule.precision is None else ["", f"**Precision.** Measured: {rule.precision.described}."]),
        "",
    ]


def sentences(text: str) -> list[str]:
    """A paragraph, one sentence a line."""
    return re.split(r"(?<=[a-z0-9)`\"][.?]) (?=[A-Z])", text)


def key(key: SliceKey) -> str:
    """A slice key in words."""
    paths = [".".join((path.field, *map(str, path.steps))) for path in key.paths]
    return f"({', '.join(paths)})" if key.joint else " else ".join(paths)
