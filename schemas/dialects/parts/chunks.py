"""Answers that were streamed, of which every chunk stands where a message belongs (Google's ADK).

A chunk has no reason to finish; nothing else tells it from a whole answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...span import Value
from ...span_content import Message, Role, ToolCall
from .reading import Half
from .values import is_object, parsed_if_nested

_EMPTY_REASON = re.compile(r'"finish_reason"\s*:\s*""')


def joined(written: Value, half: Half) -> Half:
    """Return the messages with chunks, whose reason to finish is there and empty, put together.

    The message behind them may hold the whole answer again.
    """
    if isinstance(written, str) and not _EMPTY_REASON.search(written):
        return half
    told = parsed_if_nested(written)
    if not isinstance(told, list):
        return half
    return _put_together(half, [is_object(one) and one.get("finish_reason") == "" for one in told])


def joined_choices(choices: Sequence[Mapping[str, Value]], half: Half) -> Half:
    """Return the messages of choices, each an event of its own, with the chunks of one choice put together.

    They are of one choice where all say the same index.
    """
    first = choices[0].get("index")
    if not isinstance(first, int) or any(one.get("index") != first for one in choices):
        return half
    return _put_together(half, [not one.get("finish_reason") for one in choices])


def _put_together(half: Half, is_chunk: Sequence[bool]) -> Half:
    """Return the messages with each chunk put before the message behind it."""
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
    """Return one message of what was said so far and what came then; the last may say all of it again."""
    so_far, text = begun.text or "", message.text or ""
    known = [call for call in begun.calls if not any(_is_once_more(call, later) for later in message.calls)]
    is_whole = is_last and text.startswith(so_far)
    return replace(
        message,
        text=(text if is_whole else so_far + text) or message.text,
        calls=(*known, *message.calls),
    )


def _is_once_more(call: ToolCall, later: ToolCall) -> bool:
    """Return whether a later chunk has the same call, of which the earlier one may lack the arguments."""
    return call == later or (call.call_id is not None and call.call_id == later.call_id)
