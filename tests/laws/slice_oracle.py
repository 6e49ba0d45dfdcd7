"""Slices of one event, answered in plain Python from the words of the language."""

from __future__ import annotations

import json
from typing import Any

import rfc8785
from tracline.rules.model.predicate import Path
from tracline.rules.model.rule import SliceKey

from .label_oracle import NOTHING, Event, double_text, parsed, reach, scalar, unknown, value_of, whole


def slice_oracle(key: SliceKey, event: Event) -> tuple[str | None, bool]:
    """Return the slice value and whether it is unknown."""
    found = [member(path, event) for path in key.paths]
    doubts = [doubtful(path, event) for path in key.paths]
    if key.joint:
        doubts = [doubt or vast(value) for value, doubt in zip(found, doubts, strict=True)]
        if any(value is NOTHING and not doubt for value, doubt in zip(found, doubts, strict=True)):
            return None, False
        return (None, True) if any(doubts) else (f"[{','.join(map(canonical, found))}]", False)
    for value, doubt in zip(found, doubts, strict=True):
        if doubt or isinstance(value, list | dict) or (not isinstance(value, Written) and vast(value)):
            return None, True
        if value is not NOTHING:
            return str(scalar(value) if not isinstance(value, Written) else value.text), False
    return None, False


def vast(value: object) -> bool:
    """Return whether it is, or holds, a number of at least 1e16 that is no integer of 64 bits."""
    if isinstance(value, Written):
        return any(map(vast, parsed(value.text) or ()))
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, float) and abs(value) >= 1e16) or any(map(vast, inner))


class Written:
    """A JSON number as the whole of a field: its text stands as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text


def doubtful(path: Path, event: Event) -> bool:
    """Return whether what a path names is unknown."""
    return event["kind"] == "unknown" if path.field == "kind" else unknown(path.field, event)


def member(path: Path, event: Event) -> Any:
    """Return the JSON value that a path names; plain text is a string."""
    raw = event[path.field]
    if path.field not in ("args", "result"):
        value = value_of(path, event)
        return json.dumps(value) if isinstance(value, bool) else value
    document = None if raw is None else parsed(raw)
    if not path.steps:
        if document is None or raw == "null":
            return whole(raw) if raw is not None else NOTHING
        if isinstance(document[0], int | float) or document[0] is None:
            return Written(raw)
        return document[0]
    return reach(document[0], path.steps) if document else NOTHING


def canonical(value: Any) -> str:
    """Canonical JSON (RFC 8785) of one member; with integers beyond doubles, compact JSON as it came."""
    if isinstance(value, Written):
        value = parsed(value.text)
        assert value is not None
        value = value[0]
    try:
        return rfc8785.dumps(value).decode()
    except rfc8785.IntegerDomainError:
        return compact(value)


def compact(value: Any) -> str:
    """JSON without spaces, keys in their order."""
    if isinstance(value, list):
        return f"[{','.join(map(compact, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{compact(key)}:{compact(found)}" for key, found in value.items()) + "}"
    return double_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
