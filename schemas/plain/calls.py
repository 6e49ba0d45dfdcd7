"""The claims of plain calls of models, straight from the JSON of their messages.

A call continues a conversation where its input begins with that of an earlier call: then only the messages
behind that input are read, and the claims of the earlier answer serve again. A message in another than the
exact form of OpenTelemetry's conventions is odd, and its session is left to the ordinary way from then on,
which has the same claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from ..candidate import CallHistory, Claim, chars_of
from ..claims.digests import ClaimsDigest, fields_of, message_key
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.parts.messages import MESSAGES_MAX, ROLES
from ..dialects.parts.remembered import begin_of, rest_behind
from ..dialects.parts.values import REDACTIONS, is_hidden
from ..event import Content, Kind
from ..span_content import Role
from .call_messages import (
    CallMessage,
    CallPart,
    Part,
    ResultPart,
    TextPart,
    arguments_of,
    is_name,
    messages_in,
    text_of,
)
from .content import error_of, input_text
from .span import PlainSpan

CONVERSATIONS_MAX = 4
"""Conversations of a session that are remembered."""
_CAPTURED = Content.CAPTURED
_USER, _ASSISTANT, _CALL, _RESULT = Kind.USER, Kind.ASSISTANT, Kind.TOOL_CALL, Kind.TOOL_RESULT
_BY_USER, _BY_ASSISTANT, _BY_TOOL, _INSTRUCTION = Role.USER, Role.ASSISTANT, Role.TOOL, Role.INSTRUCTION
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""

CallClaims: TypeAlias = tuple[CallHistory | None, tuple[Claim, ...], str]
"""The claims of a call: its history, those behind its last answer, and the digest of all."""


class OddMessage(Exception):
    """A message that the ordinary way reads."""


class _Answer(msgspec.Struct):
    """The answer to the last call, as the input of the next one has it: its parts, key and claims.

    `chars` are the characters of the claims, `fields` those that a digest is made of.
    """

    parts: list[Part]
    key: str
    claims: list[Claim]
    chars: int
    fields: bytes


class PlainCall(msgspec.Struct):
    """The last call of a conversation: the text of its input without the last bracket, and its claims.

    `count` is the number of messages, `key` that of the last one, and `answered` whether an answer is among
    them. `past` are the claims up to the last answer, without a time, with their characters; `behind` are the
    others, with the time of the call. `asked` are the ids of calls, `open` has those that wait for a result,
    and `digest` is that of all claims.
    """

    text: str = ""
    count: int = 0
    key: str = ""
    answered: bool = False
    past: list[Claim] = []
    chars: int = 0
    behind: list[Claim] = []
    behind_chars: int = 0
    asked: set[str] = set()
    open: dict[str, list[Claim]] = {}
    digest: ClaimsDigest = msgspec.field(default_factory=ClaimsDigest)
    answer: _Answer | None = None

    def ask(self, text: str, start: int) -> None:
        """Continue with the input of a call that starts then. Raises OddMessage, or MsgspecError."""
        rest = rest_behind(text, self.text, self.count)
        if rest is None or text[-1:] != "]":
            raise OddMessage
        messages = messages_in(rest)
        last = len(messages) - 1
        while last >= 0 and ROLES.get(messages[last].role) is not _BY_ASSISTANT:
            last -= 1
        if last >= 0:
            self.past += [replace(claim, time=0, past=True) for claim in self.behind]
            self.chars += self.behind_chars
            self.behind, self.behind_chars = [], 0
        elif self.behind and self.behind[0].time != start:
            self.behind = [replace(claim, time=start) for claim in self.behind]
        answer, self.answer = self.answer, None
        is_repeated = answer is not None and last >= 0 and self._repeats(answer, messages[0])
        self._read(messages[1:] if is_repeated else messages, last - is_repeated, start)
        self.text = begin_of(text)
        if self.count > MESSAGES_MAX:
            raise OddMessage

    def _repeats(self, answer: _Answer, message: CallMessage) -> bool:
        """Return whether a message is the last answer, and take that over as past if so."""
        if message.parts != answer.parts or ROLES.get(message.role) is not _BY_ASSISTANT:
            return False
        self.past += [replace(claim, time=0, past=True) for claim in answer.claims]
        self.chars += answer.chars
        self._note_calls(answer.claims)
        self.digest.add(answer.fields)
        self.key, self.answered = answer.key, True
        self.count += 1
        return True

    def _read(self, messages: Sequence[CallMessage], last: int, start: int) -> None:
        """Add messages behind those before; those up to the `last` answer are past."""
        new: list[Claim] = []
        for place, message in enumerate(messages):
            role, parts, past = ROLES.get(message.role), message.parts, place <= last
            time = 0 if past else start
            if role is _BY_USER:
                text = text_of(parts)
                if text is None:
                    raise OddMessage
                self.key = key = message_key(self.key, "user", text)
                behind = None, _CAPTURED, self.count, 0, past, f"{key}.0", self.answered
                claims, chars = [Claim(_USER, time, text, None, None, None, None, *behind)], len(text)
            elif role is _BY_ASSISTANT:
                at = time, self.count, past, self.answered
                self.key, claims, chars = _answered(parts, self.key, at)
                self.answered = True
                self._note_calls(claims)
            elif role is _BY_TOOL:
                claims = self._results(parts, time, past)
                chars = chars_of(claims)
            elif role is _INSTRUCTION and text_of(parts) is not None:
                claims, chars = [], 0
            else:
                raise OddMessage
            if past:
                self.past += claims
                self.chars += chars
            else:
                self.behind += claims
                self.behind_chars += chars
            new += claims
            self.count += 1
        if new:
            self.digest.add(fields_of(new))

    def _note_calls(self, claims: Sequence[Claim]) -> None:
        """Note the calls among claims: results may answer them."""
        for claim in claims:
            if claim.kind is _CALL and claim.call_id is not None:
                self.asked.add(claim.call_id)
                self.open.setdefault(claim.call_id, []).append(claim)

    def _results(self, parts: Sequence[Part], time: int, past: bool) -> list[Claim]:
        """Return the claims of a tool's message; each result has tool and arguments of its call."""
        keyed: list[list[str | None]] = []
        for part in parts:
            if type(part) is not ResultPart or part.id not in self.asked or is_hidden(part.response):
                raise OddMessage
            keyed.append([part.id, part.response])
        if not keyed:
            raise OddMessage
        self.key = key = message_key(self.key, "tool", None, (), keyed)
        claims: list[Claim] = []
        for rank, (call_id, result) in enumerate(keyed):
            waiting = self.open.get(call_id or "")
            call = waiting.pop() if waiting else None
            tool, args = (None, None) if call is None else (call.tool, call.args)
            behind = None, _CAPTURED, self.count, rank, past, f"{key}.{rank}", self.answered
            claims.append(Claim(_RESULT, time, None, tool, call_id, args, result, *behind))
        return claims

    def reply(self, written: str | None, end: int, error: str | None) -> tuple[bytes, list[Claim]]:
        """Return the fields and the claims of the call's output. Raises OddMessage, or MsgspecError."""
        if written is None:
            return b"", []
        messages, key, answered = messages_in(written), self.key, self.answered
        claims, chars = list[Claim](), 0
        for place, message in enumerate(messages, self.count):
            if ROLES.get(message.role) is not _BY_ASSISTANT or message.finish_reason == "":
                raise OddMessage
            key, found, size = _answered(message.parts, key, (end, place, False, answered), error)
            claims += found
            chars, answered = chars + size, True
        if not 0 < len(messages) <= MESSAGES_MAX:
            raise OddMessage
        fields = fields_of(claims)
        if len(messages) == 1 and error is None:
            self.answer = _Answer(messages[0].parts, key, claims, chars, fields)
        return fields, claims


class PlainCalls(msgspec.Struct):
    """The last calls of a session's conversations, the latest first; `is_odd` once a message of one was.

    `chars` are the characters of the remembered inputs. It is a cache: with it and without, calls have the
    same claims.
    """

    calls: list[PlainCall] = []
    is_odd: bool = False
    chars: int = 0

    def claims(self, span: PlainSpan, start: int, end: int) -> CallClaims | None:
        """Return the claims of a call of a model; None where the ordinary way is to read the span."""
        asked = None if self.is_odd else input_text(span)
        if asked is None:
            return None
        call = self._of(asked)
        self.chars -= len(call.text)
        try:
            call.ask(asked, start)
            fields, claims = call.reply(span.texts.get(otel.OUTPUT_MESSAGES), end, error_of(span))
        except (OddMessage, msgspec.MsgspecError, RecursionError):
            self.calls, self.is_odd, self.chars = [], True, 0
            return None
        self.chars += len(call.text)
        history = CallHistory(tuple(call.past), call.chars) if call.past else None
        return history, (*call.behind, *claims), call.digest.with_(fields)

    def _of(self, asked: str) -> PlainCall:
        """Return the call that an input continues, else a new one in the place of the oldest."""
        calls = self.calls
        for place, call in enumerate(calls):
            if call.text and asked.startswith(call.text):
                if place:
                    del calls[place]
                    calls.insert(0, call)
                return call
        for call in calls[CONVERSATIONS_MAX - 1 :]:
            self.chars -= len(call.text)
        del calls[CONVERSATIONS_MAX - 1 :]
        calls.insert(0, PlainCall())
        return calls[0]


_At: TypeAlias = tuple[int, int, bool, bool]
"""The facts that all claims of one message share: `time`, `place`, `past` and `answered` of a claim."""


def _answered(
    parts: Sequence[Part], before: str, at: _At, error: str | None = None
) -> tuple[str, list[Claim], int]:
    """Return the key of an answer and its claims, its text and its calls, with their characters."""
    text = text_of(parts)
    if text is None:
        return _calling(parts, before, at, error)
    time, place, past, answered = at
    key = message_key(before, "assistant", text)
    behind = error, _CAPTURED, place, 0, past, f"{key}.0", answered
    chars = len(text) if error is None else len(text) + len(error)
    return key, [Claim(_ASSISTANT, time, text, None, None, None, None, *behind)], chars


def _calling(parts: Sequence[Part], before: str, at: _At, error: str | None) -> tuple[str, list[Claim], int]:
    """Return what `_answered` returns of an answer with calls. Raises OddMessage."""
    texts: list[str] = []
    calls: list[tuple[str, str, str]] = []
    keyed: list[list[str | None]] = []
    for part in parts:
        if type(part) is TextPart and part.content not in REDACTIONS:
            texts.append(part.content)
        elif type(part) is CallPart and is_name(part.id) and is_name(part.name):
            args = arguments_of(part.arguments)
            if args is None:
                raise OddMessage
            calls.append((part.name, part.id, args[0]))
            keyed.append([part.id, part.name, args[1]])
        else:
            raise OddMessage
    if not calls:
        raise OddMessage
    time, place, past, answered = at
    text = "\n".join(texts) if texts else None
    key = message_key(before, "assistant", text, keyed)
    claims: list[Claim] = []
    if text:
        behind = error, _CAPTURED, place, 0, past, f"{key}.0", answered
        claims.append(Claim(_ASSISTANT, time, text, None, None, None, None, *behind))
    for rank, call in enumerate(calls, len(claims)):
        behind = error, _CAPTURED, place, rank, past, f"{key}.{rank}", answered
        claims.append(Claim(_CALL, time, None, *call, None, *behind))
    return key, claims, chars_of(claims)
