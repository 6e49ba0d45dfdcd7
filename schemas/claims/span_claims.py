"""The claims of one span: its messages, calls and results, and the halves that were not captured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from ..candidate import CallHistory, Claim, chars_of
from ..event import Content, Kind, canonical_text
from ..open_calls import OpenCall, OpenCalls
from ..span_content import INPUT, OUTPUT, Message, Role, SpanContent, SpanRole, ToolCall, ToolResult
from .digests import ClaimsDigest, digest_of, fields_of, message_key

_MODEL_OR_AGENT = (SpanRole.CHAT, SpanRole.AGENT)
_INSTRUCTION, _USER, _ASSISTANT, _CAPTURED = Role.INSTRUCTION, Role.USER, Role.ASSISTANT, Content.CAPTURED
_KIND_USER, _KIND_ASSISTANT = Kind.USER, Kind.ASSISTANT
_KIND_CALL, _KIND_RESULT = Kind.TOOL_CALL, Kind.TOOL_RESULT
_TOOL, _ABSENT = SpanRole.TOOL, Content.ABSENT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
_NO_CALL = OpenCall(0, None, None, None, nested=False)


class ClaimMemory(msgspec.Struct):
    """The claims of the input of a model's call, remembered for a later call that repeats and continues it.

    `key` is the key of the last of `messages`, `answered` whether one of them is an answer, `last` the place
    of the last one, `asked` are the ids of their calls, and `open_calls` these calls. `digest` is that of
    `claims` as the beginning of a list. The first `past` claims are as in a `CallHistory`, and `chars` are
    their characters. It is a cache: with it and without, a span has the same claims.
    """

    messages: tuple[Message, ...] = ()
    claims: list[Claim] = []
    key: str = ""
    answered: bool = False
    last: int = -1
    asked: set[str | None] = set()
    open_calls: OpenCalls = msgspec.field(default_factory=OpenCalls)
    digest: ClaimsDigest = msgspec.field(default_factory=ClaimsDigest)
    past: int = 0
    chars: int = 0

    def begin(self, inputs: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages behind the remembered ones, or all after everything remembered was dropped.

        Where results have ids of no call, calls get these ids, which depend on the whole input.
        """
        count = len(self.messages)
        is_continued = count > 0 and inputs[:count] == self.messages
        new = inputs[count:] if is_continued else inputs
        asked: set[str | None] = self.asked if is_continued else set()
        results: list[ToolResult] = []
        for message in new:
            if message.results:
                results += message.results
            for call in message.calls:
                asked.add(call.call_id)
        are_known = not results or all(not each.call_id or each.call_id in asked for each in results)
        if not (is_continued and are_known):
            self.claims, self.key, self.answered, self.last = [], "", False, -1
            self.open_calls, self.digest = OpenCalls(), ClaimsDigest()
            self.past = self.chars = 0
        self.asked, self.messages = asked, inputs if are_known else ()
        return new if are_known else with_ids_of_results(inputs)

    def parted(self, start: int) -> tuple[CallHistory | None, list[Claim]]:
        """Return the claims of a call that starts then: its history, and those behind the last answer."""
        claims, past = self.claims, self.past
        while past < len(claims) and (claims[past].place or 0) <= self.last:
            claim = claims[past]
            if claim.time or not claim.past:
                claims[past] = replace(claim, time=0, past=True)
            self.chars += chars_of((claim,))
            past += 1
        self.past = past
        history = CallHistory(tuple(claims[:past]), self.chars) if past else None
        # Those that this call has added have its time.
        return history, [
            claim if claim.time == start and not claim.past else replace(claim, time=start, past=False)
            for claim in claims[past:]
        ]


def claims_of(content: SpanContent, start: int, end: int) -> tuple[tuple[Claim, ...], str]:
    """Return the claims of a span with that start and end, and a digest of them, 32 hex digits.

    A model's input and a tool's call have the start's time, a model's output and a tool's result the end's. A
    half that was not captured is one `unknown` event.
    """
    if content.role is _TOOL and not content.ends:
        claims = [*_run(content, start, end)]
        return tuple(claims), digest_of(claims)
    memory = ClaimMemory()
    _ask(memory, content, start, start)
    claims = _behind_input(memory, content, start, end)
    return (*memory.claims, *claims), memory.digest.with_(fields_of(claims))


def parted_claims(
    content: SpanContent, start: int, end: int, memory: ClaimMemory
) -> tuple[CallHistory | None, tuple[Claim, ...], str]:
    """Return what `claims_of` returns, with the history apart.

    `memory` is that of the input of an earlier call, and becomes that of this span's if it has an input.
    """
    is_model_or_agent = content.role in _MODEL_OR_AGENT
    if not (is_model_or_agent and content.input):
        return None, *claims_of(content, start, end)
    _ask(memory, content, start, 0)
    history, asked = memory.parted(start)
    claims = _behind_input(memory, content, start, end)
    return history, (*asked, *claims), memory.digest.with_(fields_of(claims))


def half_of(claim: Claim, inputs: int) -> str:
    """Return the half of a conversation that a claim belongs to; empty for a claim of none."""
    if claim.place is None:
        return ""
    return INPUT if claim.place < inputs else OUTPUT


def _ask(memory: ClaimMemory, content: SpanContent, start: int, before: int) -> None:
    """Add the claims of the input of a model's call, or of an agent's, to the remembered ones.

    Those of its history have the time `before`, the others that of the start.
    """
    if not (content.input and content.role in _MODEL_OR_AGENT):
        return
    new, known = memory.begin(content.input), len(memory.claims)
    first = len(content.input) - len(new)
    for place, message in enumerate(new, first):
        if message.role is _ASSISTANT:
            memory.last = place
    claims, last, calls = memory.claims, memory.last, memory.open_calls
    key, answered = memory.key, memory.answered
    for place, message in enumerate(new, first):
        if message.role is not _INSTRUCTION:
            key = _key(key, message)
            past = place <= last
            _add(claims, message, calls, (before if past else start, place, past, key, answered, None))
            answered = answered or message.role is _ASSISTANT
    memory.key, memory.answered = key, answered
    memory.digest.add(fields_of(claims[known:]))


def _behind_input(memory: ClaimMemory, content: SpanContent, start: int, end: int) -> list[Claim]:
    """Return the claims of a span but those of the input of a model's call, or of an agent's."""
    claims: list[Claim] = []
    if content.role in _MODEL_OR_AGENT:
        _answer(claims, memory, content, start, end)
    elif content.role is _TOOL:
        claims.extend(_run(content, start, end))
    if content.ends:
        claims.append(Claim(Kind.END, end))
    return claims


def _answer(claims: list[Claim], memory: ClaimMemory, content: SpanContent, start: int, end: int) -> None:
    """Add the claims of the output of a model's call, or of an agent's, behind those of its input."""
    inputs, outputs = len(content.input or ()), content.output or ()
    key, answered = (memory.key, memory.answered) if inputs else ("", False)
    calls = None
    for message in outputs:
        if message.results:
            calls = deepcopy(memory.open_calls) if inputs else OpenCalls()
            break
    is_chat = content.role is SpanRole.CHAT
    if content.input is None and is_chat:
        # It sorts before the outputs, which begin at 0, also where start and end are one time.
        claims.append(Claim(Kind.UNKNOWN, start, content=content.content, place=-1))
    for place, message in enumerate(outputs, inputs):
        if message.role is not _INSTRUCTION:
            key = _key(key, message)
            _add(claims, message, calls, (end, place, False, key, answered, content.error))
            answered = answered or message.role is _ASSISTANT
    if content.output is None and is_chat:
        claims.append(Claim(Kind.UNKNOWN, end, content=content.content, place=inputs))


_Shared: TypeAlias = tuple[int, int, bool, str, bool, str | None]
"""The fields of `Claim` that all claims of one message share: time, place, past, key, answered and error."""


def _add(claims: list[Claim], message: Message, calls: OpenCalls | None, shared: _Shared) -> None:
    """Add the claims of one message; a result carries tool and arguments of the call that it answers.

    `calls` are the open calls before the message, and then those behind it; None where no result needs them.
    """
    time, place, past, key, answered, error = shared
    role, text, content = message.role, message.text, message.content
    is_user = role is _USER and (text is not None or not message.results)
    is_assistant = role is _ASSISTANT and (
        text or content is not _CAPTURED or not (message.calls or message.results)
    )
    first = 0
    if is_user or is_assistant:
        kind, first = _KIND_USER if is_user else _KIND_ASSISTANT, 1
        name = f"{key}.0"
        claims.append(
            Claim(kind, time, text, None, None, None, None, error, content, place, 0, past, name, answered)
        )
    if not (message.calls or message.results):
        return
    for rank, call in enumerate(message.calls, first):
        if calls is not None:
            calls.add(OpenCall(place, call.call_id, call.tool, call.args, nested=False))
        behind = error, call.content, place, rank, past, f"{key}.{rank}", answered
        claims.append(Claim(_KIND_CALL, time, None, call.tool, call.call_id, call.args, None, *behind))
    for rank, result in enumerate(message.results, first + len(message.calls)):
        assert calls is not None
        of_call = calls.answer(result.call_id, result.tool, strict=True) or _NO_CALL
        tool = of_call.tool if result.tool is None else result.tool
        call_id = of_call.call_id if result.call_id is None else result.call_id
        behind = result.error or error, result.content, place, rank, past, f"{key}.{rank}", answered
        claims.append(Claim(_KIND_RESULT, time, None, tool, call_id, of_call.args, result.result, *behind))


def _run(content: SpanContent, start: int, end: int) -> Iterator[Claim]:
    """Yield the claims of a tool's run: the call at its start, the result at its end."""
    call, result = content.call, content.result
    tool = (call.tool if call else None) or (result.tool if result else None)
    call_id = (call.call_id if call else None) or (result.call_id if result else None)
    args = call.args if call else None
    is_asked = _ABSENT if call is None else call.content
    yield Claim(_KIND_CALL, start, None, tool, call_id, args, None, None, is_asked)
    answer, failed, is_answered = None, content.error, _ABSENT
    if result is not None:
        answer, failed, is_answered = result.result, result.error or failed, result.content
    yield Claim(_KIND_RESULT, end, None, tool, call_id, args, answer, failed, is_answered)


def _key(before: str, message: Message) -> str:
    """Return the digest of a message and all before it; arguments in canonical form."""
    if not (message.calls or message.results):
        return message_key(before, message.role, message.text)
    calls: list[list[str | None]] = []
    results: list[list[str | None]] = []
    for call in message.calls:
        calls.append([call.call_id, call.tool, None if call.args is None else canonical_text(call.args)])
    for result in message.results:
        results.append([result.call_id, result.result])
    return message_key(before, message.role, message.text, calls, results)


def with_ids_of_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with call ids replaced by those of their results, where no ids agree.

    OpenAI's Responses have an id for the item that holds a call beside the call's. Results with ids of no
    call answer the calls right before them in order, where they are as many and name no other tools.
    """
    asked = {call.call_id for message in messages for call in message.calls}
    if all(
        result.call_id in asked or not result.call_id for message in messages for result in message.results
    ):
        return tuple(messages)
    found, named = list(messages), dict[int, list[str | None]]()
    calls: list[tuple[int, ToolCall]] = []
    results: list[ToolResult] = []
    for place, message in enumerate((*messages, Message(Role.USER))):
        if results and not message.results:
            for (at, _), result in zip(calls, results, strict=False) if _agree(calls, results, asked) else ():
                named.setdefault(at, []).append(result.call_id)
            calls, results = [], []
        results += message.results
        calls += [(place, call) for call in message.calls]
        if message.role is Role.USER and not message.results:
            calls = []
    for at, ids in named.items():
        renamed = zip(found[at].calls, ids, strict=False)
        if len(ids) == len(found[at].calls):
            found[at] = replace(found[at], calls=tuple(replace(call, call_id=name) for call, name in renamed))
    return tuple(found)


def _agree(
    calls: Sequence[tuple[int, ToolCall]], results: Sequence[ToolResult], asked: set[str | None]
) -> bool:
    """Return whether results that fit no call by their ids can answer these calls, each one."""
    return len(calls) == len(results) and all(
        result.call_id and result.call_id not in asked and result.tool in (None, call.tool)
        for (_, call), result in zip(calls, results, strict=True)
    )
