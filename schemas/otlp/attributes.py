"""Attributes and their values, out of protobuf, OTLP JSON and the plain JSON of SDK dumps."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from math import inf, nan
from typing import TypeVar, cast

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from ..chat.find import is_object
from ..span import Value
from ..tolerant_json import NotJson
from .decoded import Decoding, Place, Unreadable

DEPTH_MAX = 24
"""Levels of arrays and key-value lists inside an attribute's value."""

Given = TypeVar("Given")


def from_protobuf(
    pairs: Iterable[KeyValue], count: int, place: Place, decoding: Decoding
) -> dict[str, Value]:
    """Return the attributes of a message, of which there are `count`; unreadable ones become flaws."""
    try:
        # Most values are text: a look at that first costs a third of a look-up of the kind.
        attributes = {pair.key: (value := pair.value).string_value or _of_any(value, 0) for pair in pairs}
    except Unreadable:
        attributes = {}
    if len(attributes) != count or "" in attributes:
        return _one_by_one(pairs, lambda pair: pair.key, lambda pair: _of_any(pair.value, 0), place, decoding)
    return attributes


def from_json(value: object, place: Place, decoding: Decoding) -> dict[str, Value]:
    """Return the attributes of a JSON object: OTLP's list of keys and values, or a plain object."""
    if value is None:
        return {}
    if isinstance(value, list):
        items = cast("list[object]", value)
        attributes = _quickly(items)
        return (
            attributes if attributes is not None else _one_by_one(items, _key, _any_of_pair, place, decoding)
        )
    if is_object(value):
        return _one_by_one(
            value.items(), lambda pair: text_of(pair[0]), lambda pair: plain(pair[1]), place, decoding
        )
    decoding.lost += 1
    decoding.flaw(place, "otlp-value", "has attributes that are neither a list nor an object")
    return {}


def text_of(value: object) -> str:
    """Return the text; raise Unreadable where it is none, or UTF-8 cannot carry it."""
    if not isinstance(value, str):
        raise Unreadable("otlp-value", "is not text where text belongs")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Unreadable("otlp-text", "holds half of a surrogate pair") from None
    return value


def integer_of(value: object) -> int:
    """Return a whole number, also from decimal text or a float without a fraction; else raise Unreadable."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and len(value) <= 20 and value.isascii() and value.removeprefix("-").isdigit():
        return int(value)
    raise Unreadable("otlp-value", "has a whole number that is none")


def value_of_protobuf(value: AnyValue) -> Value:
    """Return the value of an AnyValue, None for an empty one; raise Unreadable where it has none."""
    return _of_any(value, 0)


def value_of_json(value: object) -> Value:
    """Return the value of an AnyValue in JSON, or of plain JSON; raise Unreadable where it has none.

    An empty object is an AnyValue without a value.
    """
    if value == {}:
        return None
    if is_object(value) and len(value) == 1 and next(iter(value)) in (*_SCALARS, *_NESTED):
        return _any(value, 0)
    return plain(value)


def plain(value: object, depth: int = 0) -> Value:
    """Return a value of plain JSON; raise Unreadable for deep nesting and text that UTF-8 cannot carry."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return text_of(value)
    if depth >= DEPTH_MAX:
        raise _too_deep()
    if isinstance(value, list):
        return [plain(item, depth + 1) for item in cast("list[object]", value)]
    if is_object(value):
        return {text_of(key): plain(item, depth + 1) for key, item in value.items()}
    return _double(value)


def _one_by_one(
    pairs: Iterable[Given],
    key_of: Callable[[Given], str],
    value_of: Callable[[Given], Value],
    place: Place,
    decoding: Decoding,
) -> dict[str, Value]:
    """Return the attributes with a readable key, with None for an unreadable value.

    Attributes without a readable key are counted as lost.
    """
    attributes: dict[str, Value] = {}
    for number, pair in enumerate(pairs, 1):
        value: Value = None

        def at(n: int = number) -> str:
            return f"{place()}, attribute {n}"

        try:
            key = key_of(pair)
        except Unreadable as flaw:
            decoding.lost += 1
            decoding.flaw(at, flaw.code, flaw.text)
            continue
        if not key:
            decoding.lost += 1
            decoding.flaw(at, "otlp-key", "has no key")
            continue
        try:
            value = value_of(pair)
        except Unreadable as flaw:
            decoding.flaw(at, flaw.code, flaw.text)
        if key in attributes and repr(attributes[key]) != repr(value):
            text = "has the key of an earlier one and another value"
            decoding.flaw(at, "otlp-key", text)
        attributes[key] = value
    return attributes


def _of_any(value: AnyValue, depth: int) -> Value:
    """Return the value of an AnyValue, None for an empty one."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "string_value_strindex":
        raise Unreadable("otlp-value", "has an index into a table that spans do not have")
    if kind not in ("array_value", "kvlist_value"):
        return cast("Value", getattr(value, kind))
    if depth >= DEPTH_MAX:
        raise _too_deep()
    if kind == "array_value":
        return [_of_any(item, depth + 1) for item in value.array_value.values]
    return {pair.key: _of_any(pair.value, depth + 1) for pair in value.kvlist_value.values}


def _quickly(items: list[object]) -> dict[str, Value] | None:
    """Return the attributes of a flawless list of ASCII text, as most are; else None."""
    attributes: dict[str, Value] = {}
    try:
        for item in cast("list[dict[str, dict[str, object]]]", items):
            value = item["value"]
            text = value.get("stringValue")
            attributes[cast("str", item["key"])] = (
                text if isinstance(text, str) and text.isascii() and len(value) == 1 else _any(value, 0)
            )
        keys = "".join(attributes)
    except (KeyError, TypeError, AttributeError, Unreadable):
        return None
    return attributes if keys.isascii() and len(attributes) == len(items) and "" not in attributes else None


def _key(pair: object) -> str:
    if not is_object(pair):
        raise Unreadable("otlp-value", "is not an object with `key` and `value`")
    return text_of(pair.get("key", ""))


def _any_of_pair(pair: object, depth: int = 0) -> Value:
    return _any(cast("Mapping[str, object]", pair).get("value"), depth)


def _any(value: object, depth: int) -> Value:
    """Return the value of an AnyValue in JSON; raise Unreadable where it is none."""
    if value is None:
        return None
    if not is_object(value) or len(value) > 1:
        raise Unreadable("otlp-value", "has a value that is not an object with one member")
    for name, inner in value.items():
        if name in _SCALARS:
            return None if inner is None else _SCALARS[name](inner)
        if name in _NESTED:
            return None if inner is None else _NESTED[name](_inner_list(inner, depth), depth + 1)
        raise Unreadable("otlp-value", "has a value of a type that OTLP does not have")
    return None


def _bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise Unreadable("otlp-value", "has a truth value that is none")


def _integer(value: object) -> int:
    number = integer_of(value)
    if not -(2**63) <= number < 2**63:
        raise Unreadable("otlp-value", "has a whole number beyond 64 bits")
    return number


def _bytes(value: object) -> bytes:
    try:
        return base64.b64decode(text_of(value), validate=True)
    except (binascii.Error, ValueError):
        raise Unreadable("otlp-value", "has bytes that are not in base64") from None


def _array(items: list[object], depth: int) -> list[Value]:
    return [_any(item, depth) for item in items]


def _kvlist(items: list[object], depth: int) -> dict[str, Value]:
    return {_key(pair): _any_of_pair(pair, depth) for pair in items}


def _inner_list(value: object, depth: int) -> list[object]:
    if depth >= DEPTH_MAX:
        raise _too_deep()
    inner = value.get("values") if is_object(value) else None
    if is_object(value) and inner is None:
        return []
    if not isinstance(inner, list):
        raise Unreadable("otlp-value", "has an array or key-value list without a list of `values`")
    return cast("list[object]", inner)


def _double(value: object) -> float:
    """Return a float, also from the texts that JSON has for values that are no JSON numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    text = value.text if isinstance(value, NotJson) else value
    if text == "NaN":
        return nan
    if isinstance(value, NotJson) or text in ("Infinity", "-Infinity"):
        # A `NotJson` other than these names is a number beyond doubles.
        return -inf if str(text).startswith("-") else inf
    if isinstance(text, str) and len(text) <= 32:
        try:
            return float(text)
        except ValueError:
            pass
    raise Unreadable("otlp-value", "has a number that is none")


def _too_deep() -> Unreadable:
    return Unreadable("otlp-depth", f"is nested more than {DEPTH_MAX} deep")


_SCALARS: dict[str, Callable[[object], Value]] = {
    "stringValue": text_of,
    "string_value": text_of,
    "boolValue": _bool,
    "bool_value": _bool,
    "intValue": _integer,
    "int_value": _integer,
    "doubleValue": _double,
    "double_value": _double,
    "bytesValue": _bytes,
    "bytes_value": _bytes,
}
_NESTED: dict[str, Callable[[list[object], int], Value]] = {
    "arrayValue": _array,
    "array_value": _array,
    "kvlistValue": _kvlist,
    "kvlist_value": _kvlist,
}
