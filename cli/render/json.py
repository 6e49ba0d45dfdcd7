"""The results of an audit as JSON: one document, or a verdict per line. It is ASCII, so safe to print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from ...schemas.records.verdict_record import VerdictRecord


def lines(verdicts: Iterator[VerdictRecord]) -> Iterator[str]:
    """Yield each verdict as a line of JSON."""
    return (json.dumps(msgspec.to_builtins(verdict)) for verdict in verdicts)


def json_text(summary: dict[str, Any], verdicts: Iterator[VerdictRecord]) -> Iterator[str]:
    """Yield one JSON object: the content of `summary.json`, and all verdicts under `verdicts`."""
    yield json.dumps(summary, indent=2, sort_keys=True).removesuffix("\n}") + ","
    yield from array("verdicts", map(msgspec.to_builtins, verdicts))
    yield "}"


def array(name: str, items: Iterator[dict[str, Any]], indent: str = "  ") -> Iterator[str]:
    """Yield the member `name` of a JSON object, an array of the items, line by line."""
    yield f"{indent}{json.dumps(name)}: ["
    before: str | None = None
    for item in items:
        if before is not None:
            yield f"{before},"
        before = f"{indent}  {json.dumps(item, sort_keys=True)}"
    if before is not None:
        yield before
    yield f"{indent}]"
