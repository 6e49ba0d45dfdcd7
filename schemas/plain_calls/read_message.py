"""Messages of plain calls that are more than a text in today's usual form: calls of tools, results, parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import orjson

from ..dialects.parts.messages import ROLES
from ..dialects.parts.values import REDACTIONS, is_hidden
from ..event import Kind
from ..span_content import Role
from .call_messages import (
    CallMessage,
    CallPart,
    Part,
    ResultPart,
    TextPart,
    arguments_of,
    is_name,
    text_of,
)
from .message_loops import ASSISTANT, INSTRUCTION, TOOL, USER

_USER, _ASSISTANT, _CALL, _RESULT = Kind.USER, Kind.ASSISTANT, Kind.TOOL_CALL, Kind.TOOL_RESULT
_BY_USER, _BY_ASSISTANT, _BY_TOOL, _INSTRUCTION = Role.USER, Role.ASSISTANT, Role.TOOL, Role.INSTRUCTION
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
_dumps = orjson.dumps
_OF_CALL = b"null,null]"
"""The end of a call's tail: it has no result, and the calls of an input no error."""

Stated: TypeAlias = tuple[Kind, str | None, str | None, str | None, str | None, str | None]
"""A claim as a message states it: kind, text, tool, id of the call, arguments and result."""


class OddMessage(Exception):
    """A message that the ordinary way reads."""


class ReadMessage(msgspec.Struct):
    """A message: the number of its role, and what it states, with the number of characters.

    `key` has the fields of its key behind the key before it, and `tails` those of each claim behind its rank,
    as the end of a JSON list each.
    """

    role: int
    key: bytes = b""
    stated: Sequence[Stated] = ()
    tails: Sequence[bytes] = ()
    chars: int = 0


class AskedCalls(msgspec.Struct):
    """The calls of a conversation: the ids of all, and those that wait for a result, each with its tail."""

    ids: set[str] = set()
    waiting: dict[str, list[tuple[Stated, bytes]]] = {}

    def note(self, message: ReadMessage) -> None:
        """Note the calls that a message states: results may answer them."""
        for stated, tail in zip(message.stated, message.tails, strict=True):
            call_id = stated[3]
            if stated[0] is _CALL and call_id is not None:
                self.ids.add(call_id)
                self.waiting.setdefault(call_id, []).append((stated, tail))

    def answered(self, call_id: str) -> tuple[Stated, bytes] | None:
        """Return the last call with that id that waits, if there is one."""
        waiting = self.waiting.get(call_id)
        return waiting.pop() if waiting else None


def read_message(message: CallMessage, asked: AskedCalls) -> ReadMessage:
    """Return a message of an input; `asked` are the calls before it. Raises OddMessage."""
    role, parts = ROLES.get(message.role), message.parts
    if role is _BY_ASSISTANT:
        return read_answer(parts)
    if role is _BY_TOOL:
        return _results(parts, asked)
    text = text_of(parts)
    if text is None:
        raise OddMessage
    if role is _BY_USER:
        return _read(USER, "user", text, [(_USER, text, None, None, None, None)])
    if role is _INSTRUCTION:
        return ReadMessage(INSTRUCTION)
    raise OddMessage


def read_answer(parts: Sequence[Part], error: str | None = None) -> ReadMessage:
    """Return a message of a model, its text and its calls. Raises OddMessage."""
    text = text_of(parts)
    if text is not None:
        return _read(ASSISTANT, "assistant", text, [(_ASSISTANT, text, None, None, None, None)], error=error)
    texts: list[str] = []
    stated: list[Stated] = []
    keyed: list[list[str | None]] = []
    for part in parts:
        if type(part) is TextPart and part.content not in REDACTIONS:
            texts.append(part.content)
        elif type(part) is CallPart and is_name(part.id) and is_name(part.name):
            args = arguments_of(part.arguments)
            if args is None:
                raise OddMessage
            stated.append((_CALL, None, part.name, part.id, args[0], None))
            keyed.append([part.id, part.name, args[1]])
        else:
            raise OddMessage
    if not stated:
        raise OddMessage
    text = "\n".join(texts) if texts else None
    if text:
        stated.insert(0, (_ASSISTANT, text, None, None, None, None))
    return _read(ASSISTANT, "assistant", text, stated, keyed, error=error)


def read_result(written_id: bytes, written: bytes, asked: AskedCalls) -> ReadMessage:
    """Return a tool's message with one result; id and text in JSON as orjson writes it. Raises OddMessage."""
    call_id, result = written_id[1:-1].decode(), orjson.loads(written)
    if call_id not in asked.ids:
        raise OddMessage
    tool = args = None
    fields = b"null,%b,null," % written_id
    if (call := asked.answered(call_id)) is not None:
        (_, _, tool, _, args, _), tail = call
        fields = tail[: -len(_OF_CALL)]
    chars = len(tool or "") + len(call_id) + len(args or "") + len(result)
    key = b'"tool",null,[],[[%b,%b]]]' % (written_id, written)
    stated = (_RESULT, None, tool, call_id, args, result)
    return ReadMessage(TOOL, key, (stated,), (b"%b%b,null]" % (fields, written),), chars)


def _results(parts: Sequence[Part], asked: AskedCalls) -> ReadMessage:
    """Return a tool's message; each result has tool and arguments of its call. Raises OddMessage."""
    keyed: list[list[str | None]] = []
    for part in parts:
        if type(part) is not ResultPart or part.id not in asked.ids or is_hidden(part.response):
            raise OddMessage
        keyed.append([part.id, part.response])
    if not keyed:
        raise OddMessage
    stated: list[Stated] = []
    for call_id, result in keyed:
        call = asked.answered(call_id or "")
        tool, args = (None, None) if call is None else (call[0][2], call[0][4])
        stated.append((_RESULT, None, tool, call_id, args, result))
    return _read(TOOL, "tool", None, stated, (), keyed)


def _read(
    role: int,
    named: str,
    text: str | None,
    stated: Sequence[Stated],
    calls: Sequence[list[str | None]] = (),
    results: Sequence[list[str | None]] = (),
    error: str | None = None,
) -> ReadMessage:
    tails: list[bytes] = []
    chars = 0
    for _, shown, tool, call_id, args, result in stated:
        tails.append(_dumps([tool, call_id, args, result, error])[1:])
        for each in (shown, tool, call_id, args, result, error):
            chars += 0 if each is None else len(each)
    return ReadMessage(role, _dumps([named, text, calls, results])[1:], stated, tails, chars)
