"""Lists that were flattened into attributes: `llm.input_messages.0.message.role` and the like."""

from __future__ import annotations

from ...span import Span, Value

LEVELS_MAX = 12
"""Names after the prefix that may follow each other with dots between; what is below stays one name."""
ATTRIBUTES_DEFAULT = 128
"""Attributes of a span beyond which OpenTelemetry's SDKs drop some unless they are told otherwise."""
INDEX_DIGITS_MAX = 6
"""Digits of a place in a list."""


class Cut(ValueError):
    """A list of which some members may be missing: SDKs limit how many attributes a span may have."""


def flattened(span: Span, prefix: str) -> list[Value] | None:
    """Return the list whose members' fields stand behind `prefix.place.`; None where there are none.

    Its members are nested objects and lists again. Attributes whose value could not be read are passed over.
    A list that was not flattened, under the prefix itself, is given as it is. Places may be left out: some
    count parts of which they tell only a few. Raises Cut where the span has lost attributes, whose SDKs may
    forget what was set last and leave no hole.
    """
    plain = span.attributes.get(prefix)
    if isinstance(plain, list):
        return plain
    dotted, tree = prefix + ".", dict[str, Value]()
    for key, value in span.attributes.items():
        if value is not None and key.startswith(dotted):
            _plant(tree, key[len(dotted) :].split(".", LEVELS_MAX), value)
    members = _members(tree)
    if members and (span.dropped_attributes or _is_full(span, tree)):
        raise Cut("some of the list may be missing")
    return members or None


def _is_full(span: Span, tree: dict[str, Value]) -> bool:
    """Return whether a span has as many attributes as SDKs allow by default, and lacks the list's first.

    The dumps of Python's SDK, which forgets what was set first, do not say how many were dropped.
    """
    return len(span.attributes) == ATTRIBUTES_DEFAULT and "0" not in tree


def _plant(tree: dict[str, Value], path: list[str], value: Value) -> None:
    """Put a value into the tree; where a field is both a value and an object, what came first stays."""
    for name in path[:-1]:
        below = tree.get(name)
        if below is None:
            below = tree[name] = dict[str, Value]()
        elif not isinstance(below, dict):
            return
        tree = below
    tree.setdefault(path[-1], value)


def _members(tree: dict[str, Value]) -> list[Value]:
    """Return the members of an object whose names are places, in their order."""
    places = sorted((int(name), name) for name in tree if _is_place(name))
    return [_grown(tree[name]) for _, name in places]


def _grown(value: Value) -> Value:
    """Return the value with objects whose names are all places as lists."""
    if not isinstance(value, dict):
        return value
    if value and all(map(_is_place, value)):
        return _members(value)
    return {name: _grown(inner) if isinstance(inner, dict) else inner for name, inner in value.items()}


def _is_place(name: str) -> bool:
    return name.isdigit() and name.isascii() and len(name) <= INDEX_DIGITS_MAX
