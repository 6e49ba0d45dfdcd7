"""The messages of plain calls, in the exact form of OpenTelemetry's conventions, straight from their JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import orjson

from ..chat.message import ID_CHARS_MAX
from ..dialects.parts.values import REDACTIONS
from ..event import canonical_text
from ..tolerant_json import json_text


class TextPart(msgspec.Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="text"):
    """A text."""

    content: str


class CallPart(msgspec.Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="tool_call"):
    """A call of a tool."""

    id: str
    name: str
    arguments: msgspec.Raw


class ResultPart(
    msgspec.Struct, forbid_unknown_fields=True, gc=False, tag_field="type", tag="tool_call_response"
):
    """The result of a tool."""

    id: str
    response: str


Part: TypeAlias = TextPart | CallPart | ResultPart


class CallMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message; a JSON text with a further field, or a field of another type, has none of this form."""

    role: str
    parts: list[Part]
    finish_reason: str | None = None


Arguments: TypeAlias = tuple[str, str]
"""The arguments of a call as JSON text, and in canonical form."""

message_in = msgspec.json.Decoder(CallMessage).decode
"""Returns the message in a JSON text; raises MsgspecError where it has another form."""


def text_of(parts: Sequence[Part]) -> str | None:
    """Return the texts of a message, a line each; None where another part is among them, or one is hidden."""
    if len(parts) == 1:
        only = parts[0]
        return only.content if type(only) is TextPart and only.content not in REDACTIONS else None
    texts: list[str] = []
    for part in parts:
        if type(part) is not TextPart or part.content in REDACTIONS:
            return None
        texts.append(part.content)
    return "\n".join(texts) if texts else None


def is_name(text: str) -> bool:
    """Return whether a text is an id or a name."""
    return 0 < len(text) <= ID_CHARS_MAX


def arguments_of(written: msgspec.Raw) -> Arguments | None:
    """Return the arguments in a JSON text; None where they are null, hidden, or what JSON cannot carry on."""
    try:
        value = orjson.loads(memoryview(written))
        text = value if isinstance(value, str) else json_text(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    return None if value is None or text in REDACTIONS else (text, canonical_text(text))
