"""The results of an audit as JSON: one document, or a verdict a line. All of it ASCII, so safe to show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def lines(verdicts: Iterator[dict[str, Any]]) -> Iterator[str]:
    """The verdicts, each as a line of JSON."""
    return (json.dumps(verdict, sort_keys=True) for verdict in verdicts)


def json_text(summary: dict[str, Any], verdicts: Iterator[dict[str, Any]]) -> Iterator[str]:
    """One object: the content of `summary.json`, and under `verdicts` all of them."""
    yield json.dumps(summary, indent=2, sort_keys=True).removesuffix("\n}") + ","
    yield from array("verdicts", verdicts)
    yield "}"


def array(name: str, items: Iterator[dict[str, Any]], indent: str = "  ") -> Iterator[str]:
    """The member `name`, an array of the items: lines of a JSON object that is written piece by piece."""
    yield f"{indent}{json.dumps(name)}: ["
    before: str | None = None
    for item in items:
        if before is not None:
            yield f"{before},"
        before = f"{indent}  {json.dumps(item, sort_keys=True)}"
    if before is not None:
        yield before
    yield f"{indent}]"
