"""Lists that were flattened into attributes: `llm.input_messages.0.message.role` and the like."""

from __future__ import annotations

from functools import lru_cache

from ...span import Span, Value

LEVELS_MAX = 12
"""Levels of dotted names after the prefix; deeper levels stay one name."""
ATTRIBUTES_DEFAULT = 128
"""The default limit of OpenTelemetry's SDKs on the attributes of a span."""
INDEX_DIGITS_MAX = 6
"""Digits of a place in a list."""
NAMES_CACHED_MAX, CACHED_CHARS_MAX = 4_096, 80
"""Names behind a prefix that are cut once, and the characters of one: lists have the same names again."""


class Cut(ValueError):
    """A list of which some members may be missing: SDKs limit how many attributes a span may have."""


def flattened(span: Span, prefix: str) -> list[Value] | None:
    """Return the list with members' fields in attributes `prefix.place.`; None where there are none.

    Its members are nested objects and lists. Unreadable attributes are skipped. A list that was not
    flattened, under the prefix itself, is returned as it is. Places may be missing: some writers count parts
    and write only a few. Raises Cut where the span has lost attributes, since an SDK may drop the last ones
    and leave no hole.
    """
    plain = span.attributes.get(prefix)
    if isinstance(plain, list):
        return plain
    dotted, tree = prefix + ".", dict[str, Value]()
    begin = len(dotted)
    for key, value in span.attributes.items():
        if key.startswith(dotted) and value is not None:
            name = key[begin:]
            _plant(tree, _cached_path(name) if len(name) <= CACHED_CHARS_MAX else _path(name), value)
    members = _members(tree)
    if members and (span.dropped_attributes or _is_full(span, tree)):
        raise Cut("some of the list may be missing")
    return members or None


def _is_full(span: Span, tree: dict[str, Value]) -> bool:
    """Return whether a span has as many attributes as SDKs allow by default, and lacks the list's first.

    Python's SDK drops the attributes that were set first, and its dumps do not state how many.
    """
    return len(span.attributes) == ATTRIBUTES_DEFAULT and "0" not in tree


def _path(name: str) -> tuple[tuple[str, ...], str]:
    """Return the levels of a dotted name, and the last one."""
    *levels, last = name.split(".", LEVELS_MAX)
    return tuple(levels), last


_cached_path = lru_cache(maxsize=NAMES_CACHED_MAX)(_path)


def _plant(tree: dict[str, Value], path: tuple[tuple[str, ...], str], value: Value) -> None:
    """Put a value into the tree; where a field is both a value and an object, the first one stays."""
    levels, last = path
    for name in levels:
        below = tree.get(name)
        if below is None:
            below = tree[name] = {}
        elif not isinstance(below, dict):
            return
        tree = below
    tree.setdefault(last, value)


def _members(tree: dict[str, Value]) -> list[Value]:
    """Return the members of an object with names that are places, in their order."""
    places = sorted((int(name), name) for name in tree if _is_place(name))
    return [_grown(tree[name]) for _, name in places]


def _grown(value: Value) -> Value:
    """Return the value with objects as lists where all names are places."""
    if not isinstance(value, dict):
        return value
    if value and all(map(_is_place, value)):
        return _members(value)
    for inner in value.values():
        if isinstance(inner, dict):
            break
    else:
        return value
    return {name: _grown(inner) if isinstance(inner, dict) else inner for name, inner in value.items()}


def _is_place(name: str) -> bool:
    # Most names are words.
    return name[:1].isdigit() and name.isdigit() and name.isascii() and len(name) <= INDEX_DIGITS_MAX
