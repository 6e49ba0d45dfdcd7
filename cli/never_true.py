"""Propositions that are never true in an archive, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .terminal import clean


def never_true_lines(entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a heading and a line for each likely mistake; nothing if every proposition is true somewhere.

    Propositions with one reason and no suggestion share a line. Entries are as in `summary.json`.
    """
    lines: dict[str, list[str]] = {}
    for entry in entries:
        name = clean(f"{entry['pack']}/{entry['proposition']}")
        suggestion = entry["suggestion"]
        text = entry["reason"] if suggestion is None else f"{entry['reason']}: {suggestion}"
        lines.setdefault(clean(text), []).append(name)
    if lines:
        yield "Never true here:"
    for text, names in sorted(lines.items(), key=lambda line: line[1]):
        yield f"  {', '.join(names)}: {text}"
