"""A validator for the keywords of JSON Schema (draft 4) that the vendored schemas use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

CHECKED = frozenset(
    {
        *("$ref", "type", "enum", "required", "properties", "additionalProperties", "items"),
        *("minItems", "uniqueItems", "minimum", "maximum", "pattern", "anyOf", "oneOf"),
    }
)
IGNORED = frozenset({"$schema", "id", "title", "description", "default", "definitions", "format"})

TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
    "null": type(None),
}  # fmt: skip


def violations(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "$") -> Iterator[str]:
    """Yield the place and keyword of each violation. Fails for a keyword that it does not know."""
    unknown = schema.keys() - CHECKED - IGNORED
    assert not unknown, f"{at}: keywords {unknown}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/definitions/")
        yield from violations(value, root["definitions"][name], root, at)
        return
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{at}: type"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: enum"
    if isinstance(value, dict):
        yield from _of_object(value, schema, root, at)
    elif isinstance(value, list):
        yield from _of_array(value, schema, root, at)
    elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{at}: pattern"
    elif isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get(
        "maximum", value
    ):
        yield f"{at}: bounds"
    for keyword, allowed in (("anyOf", lambda n: n > 0), ("oneOf", lambda n: n == 1)):
        if keyword in schema:
            holding = sum(not any(violations(value, option, root, at)) for option in schema[keyword])
            if not allowed(holding):
                yield f"{at}: {keyword}"


def _is(value: Any, names: str | list[str]) -> bool:
    if isinstance(names, list):
        return any(_is(value, name) for name in names)
    return isinstance(value, TYPES[names]) and (names == "boolean" or not isinstance(value, bool))


def _of_object(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> Iterator[str]:
    yield from (f"{at}.{name}: required" for name in schema.get("required", ()) if name not in value)
    known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, member in value.items():
        if name in known:
            yield from violations(member, known[name], root, f"{at}.{name}")
        elif rest is False:
            yield f"{at}.{name}: additionalProperties"
        elif isinstance(rest, dict):
            yield from violations(member, rest, root, f"{at}.{name}")


def _of_array(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> Iterator[str]:
    if len(value) < schema.get("minItems", 0):
        yield f"{at}: minItems"
    if schema.get("uniqueItems") and len({json.dumps(item, sort_keys=True) for item in value}) < len(value):
        yield f"{at}: uniqueItems"
    for number, item in enumerate(value):
        yield from violations(item, schema.get("items", {}), root, f"{at}[{number}]")
