"""The catalogue of shipped rules, `docs/rules.md`, is what the packs say."""

from __future__ import annotations

import os
from pathlib import Path

from tracline.rules.model.printer import to_text
from tracline.rules.model.rule import Rule, SliceKey
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.verdict import Severity

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
REWRITE = bool(os.environ.get("TRACLINE_WRITE_SNAPSHOTS"))
INTRODUCTION = """\
# The rules that ship

Three packs come with tracline. Name them where a pack is asked for: `tracline audit ARCHIVE --rules
customer-service tool-hygiene privacy --out BUNDLE`. Their files are in `rules/library/`. What is written
below stands in the packs, and a test keeps it so.

`customer-service` asks about tools by their names. Where yours have others, write a pack that
[extends](language.md#packs-that-extend-others) it and defines its propositions for your tools. `tracline init
SOURCE --out PACK` makes a start from recorded sessions:

- It suggests tools for each proposition by the words of their names and by their arguments.
- It leaves out the rules that need tools which were not seen.
- Its comments list the kinds of events, agents and tools that were seen, and why each tool is suggested.
- They say how often each proposition is true, and which sessions each rule would flag today.
- `tracline check`, `test` and `audit` accept the pack as it is written.
- Every line is a suggestion: correct it, and take rules out of `drop` once their propositions are defined.
- It asks no model and reads names only: no message and no value of an argument is in the pack.

A rule's *blind spots* are what it is known not to see. Every rule is tested with its own examples, against
simulated conversations of which it is known who broke what, and with an edit of a clean conversation that it
must catch at the event that is to blame.
"""


def test_the_catalogue_is_in_step_with_the_packs() -> None:
    """The page has every shipped rule as its pack has it; TRACLINE_WRITE_SNAPSHOTS=1 writes it anew."""
    rules = load_packs(shipped_packs()).rules
    packs = {name: [rule for rule in rules if rule.pack == name] for name in shipped_packs()}
    page = "\n".join([INTRODUCTION, *(line for name, own in packs.items() for line in section(name, own))])
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
        f"{rule.title}. Severity: {rule.severity.value}.",
        "",
        *("```text", *shown, "```", ""),
        *(f"*Why.* {rule.why}", "", f"*Blind spots.* {rule.blind_spots}", ""),
    ]


def key(key: SliceKey) -> str:
    """A slice key in words."""
    paths = [".".join((path.field, *map(str, path.steps))) for path in key.paths]
    return f"({', '.join(paths)})" if key.joint else " else ".join(paths)
