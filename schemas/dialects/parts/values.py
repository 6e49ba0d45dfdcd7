"""Values that events can carry: JSON parsed from text, and text that UTF-8 can encode."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TypeGuard, cast

import orjson

from ...chat.message import UnreadableMessage, returned
from ...event import Content
from ...span import Value
from ...tolerant_json import NotJson, json_text, read_json

REDACTIONS = frozenset({"__REDACTED__", "[REDACTED]", "<elided>"})
"""Values that replace a hidden one: OpenInference's, the usual one of collector processors, and that of the
ADK's log records."""
_HIDDEN_CHARS_MAX = max(map(len, REDACTIONS))
DEPTH_MAX = 100
"""Levels of arrays and objects in what a message holds."""


class Uncarried(ValueError):
    """A value that no JSON text can carry."""


def is_hidden(text: str) -> bool:
    """Return whether a text replaces a hidden value; a set alone would hash all of a long text."""
    return len(text) <= _HIDDEN_CHARS_MAX and text in REDACTIONS


def is_object(value: Value) -> TypeGuard[dict[str, Value]]:
    """Return whether the value is a JSON object."""
    return isinstance(value, dict)


def parsed(text: str) -> Value:
    """Return the value of JSON text; raise ValueError where it is none, as when it was cut."""
    try:
        return cast("Value", orjson.loads(str(text)))
    except orjson.JSONDecodeError:
        # The tolerant reader accepts values that JSON cannot carry on.
        return sound(read_json(whole(text).encode()))


def is_cut(text: str) -> bool:
    """Return whether a JSON object is cut off, as where an SDK limits the length of an attribute."""
    if not text.startswith("{"):
        return False
    try:
        orjson.loads(whole(text))
    except orjson.JSONDecodeError as error:
        return error.pos >= len(text)
    return False


def parsed_if_nested(value: Value) -> Value:
    """Return the array or object that JSON text holds; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return parsed(value)
        except ValueError:
            return value
    return value


def sound(value: object, depth: int = 0) -> Value:
    """Return the value with all parts replaced that JSON cannot carry: lone surrogates, bytes, `NaN`.

    Raises Uncarried for nesting beyond `DEPTH_MAX`.
    """
    if isinstance(value, str):
        return whole(value)
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else _double(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, NotJson):
        return value.text
    if depth >= DEPTH_MAX:
        raise Uncarried("nested too deeply")
    if isinstance(value, list):
        return [sound(item, depth + 1) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        return {whole(str(key)): sound(item, depth + 1) for key, item in members.items()}
    return None


def _double(value: int) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def whole(text: str) -> str:
    """Return the text, with U+FFFD for each half of a surrogate pair: where an emoji was cut in two."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def text_in_json(value: Value) -> str | None:
    """Return the value as compact JSON text, and text as it is; raise Uncarried where JSON cannot hold it."""
    if value is None or isinstance(value, str):
        return value
    try:
        return json_text(value)
    except orjson.JSONEncodeError:
        raise Uncarried("is no JSON") from None


def arguments(value: Value) -> tuple[str | None, Content]:
    """Return a call's arguments as JSON text, and whether they are there to be read."""
    return _text_of(value, text_in_json)


def result(value: Value) -> tuple[str | None, Content]:
    """Return what a tool returned as JSON text or plain, and whether it is there to be read."""
    return _text_of(value, _returned)


def _text_of(value: Value, as_text: Callable[[Value], str | None]) -> tuple[str | None, Content]:
    if isinstance(value, str):
        return (None, Content.REDACTED) if is_hidden(value) else (whole(value), Content.CAPTURED)
    try:
        text = as_text(value)
    except Uncarried:
        # Most values are sound, and looking through all of them costs more than trying.
        try:
            text = as_text(sound(value))
        except Uncarried:
            return None, Content.TRUNCATED
    return (None, Content.REDACTED) if text in REDACTIONS else (text, Content.CAPTURED)


def _returned(value: Value) -> str | None:
    """Return a tool's text parts a line each, any other value as JSON text."""
    if isinstance(value, list) and value and all(is_object(part) and [*part] == ["text"] for part in value):
        # Bedrock's parts have no type.
        return _returned([{"type": "text", **part} for part in value if is_object(part)])
    try:
        return returned(value)
    except UnreadableMessage:
        return text_in_json(value)
    except orjson.JSONEncodeError:
        raise Uncarried("is no JSON") from None
