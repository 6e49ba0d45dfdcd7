"""Propositions that are never true in an archive, and likely mistakes in rules, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .terminal import clean

LINES_MAX = 20
"""Likely mistakes that are shown; `summary.json` has all."""


def rule_mistake_lines(summary: Mapping[str, Any], *, suggested: bool = False) -> Iterator[str]:
    """Yield a heading and a line for each never true proposition and likely mistake, nothing without any.

    The entries are those of `summary.json`; with `suggested`, only those with a suggestion.
    """
    for key, heading in (("never_true", "Never true here:"), ("likely_mistakes", "Likely mistakes:")):
        entries = summary.get(key, ())
        yield from _lines(heading, [each for each in entries if each["suggestion"] or not suggested])


def _lines(heading: str, entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a list; entries of one pack with one text share a line."""
    lines: dict[str, list[str]] = {}
    for entry in entries:
        lines.setdefault(_text(entry), []).append(_name(entry))
    if lines:
        yield heading
    for text, names in sorted(lines.items(), key=lambda line: line[1])[:LINES_MAX]:
        yield f"  {', '.join(dict.fromkeys(names))}: {text}"
    if len(lines) > LINES_MAX:
        yield f"  and {len(lines) - LINES_MAX:,} more"


def _name(entry: Mapping[str, Any]) -> str:
    """Return the proposition, or the rules of a `for_each`, by pack."""
    names = entry["rules"] if entry["proposition"] is None else [entry["proposition"]]
    return clean(", ".join(f"{entry['pack']}/{name}" for name in names))


def _text(entry: Mapping[str, Any]) -> str:
    parts = [entry["reason"], entry["suggestion"]]
    if entry.get("proposition") is None:
        parts = [entry["condition"], *parts]
    return clean(": ".join(part for part in parts if part is not None))
