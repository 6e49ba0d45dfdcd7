"""Streamed answers with a message for each chunk (Google's ADK).

A chunk has no finish reason; that alone distinguishes it from a whole answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ...span import Value
from ...span_content import Message, Role, ToolCall
from .reading import Half
from .values import is_object, parsed_if_nested

_EMPTY_REASON = re.compile(r'"finish_reason"\s*:\s*""')


def joined(written: Value, half: Half) -> Half:
    """Return the messages with chunks joined; a chunk has an empty finish reason.

    The message after the chunks may hold the whole answer again.
    """
    if isinstance(written, str) and not _EMPTY_REASON.search(written):
        return half
    opened = parsed_if_nested(written)
    if not isinstance(opened, list):
        return half
    return _put_together(half, [is_object(item) and item.get("finish_reason") == "" for item in opened])


def joined_choices(choices: Sequence[Mapping[str, Value]], half: Half) -> Half:
    """Return the messages of choices, each a separate event, with the chunks of one choice joined.

    Choices with the same index are chunks of one.
    """
    first = choices[0].get("index")
    if not isinstance(first, int) or any(choice.get("index") != first for choice in choices):
        return half
    return _put_together(half, [not choice.get("finish_reason") for choice in choices])


def _put_together(half: Half, is_chunk: Sequence[bool]) -> Half:
    """Return the messages with each chunk joined to the next message."""
    if half.messages is None or len(half.messages) != len(is_chunk):
        return half
    if len(is_chunk) < 2 or not any(is_chunk):
        return half
    found: list[Message] = []
    begun: Message | None = None
    for message, is_begun in zip(half.messages, is_chunk, strict=True):
        if message.role is not Role.ASSISTANT:
            return half
        whole = message if begun is None else _together(begun, message, is_last=not is_begun)
        begun = whole if is_begun else None
        if begun is None:
            found.append(whole)
    return replace(half, messages=(*found, *([] if begun is None else [begun])))


def _together(begun: Message, message: Message, *, is_last: bool) -> Message:
    """Return one message of the text so far and the next; the last may repeat all of it."""
    so_far, text = begun.text or "", message.text or ""
    known = [call for call in begun.calls if not any(_is_repeat(call, later) for later in message.calls)]
    is_whole = is_last and text.startswith(so_far)
    return replace(
        message, text=(text if is_whole else so_far + text) or message.text, calls=(*known, *message.calls)
    )


def _is_repeat(call: ToolCall, later: ToolCall) -> bool:
    """Return whether a later chunk has the same call, of which the earlier one may lack the arguments."""
    return call == later or (call.call_id is not None and call.call_id == later.call_id)
