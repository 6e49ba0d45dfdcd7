"""What a step tells, thing by thing: messages, calls, results, and the halves that were not captured."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import count

import msgspec
import orjson

from ..candidate import Claim
from ..event import Content, Kind, canonical_text
from ..open_calls import OpenCall, OpenCalls
from ..span_content import INPUT, OUTPUT, Message, Role, SpanContent, SpanRole, ToolCall, ToolResult

_DIGEST_BYTES = 16


def claims_of(
    content: SpanContent, start: int, end: int, *, without: Container[str] = ()
) -> tuple[tuple[Claim, ...], str]:
    """Return the tellings of a step that began and ended then, and a digest of them, 32 hex digits.

    A model's input is told at its start, its output at its end, and so are a tool's call and result. A half
    whose messages were not captured is one `unknown` event. The halves `without` (`INPUT`, `OUTPUT`) of a
    conversation are left out; the digest covers them all the same.
    """
    told: list[Claim] = []
    if content.role in (SpanRole.CHAT, SpanRole.AGENT):
        told.extend(_conversation(content, start, end))
    elif content.role is SpanRole.TOOL:
        told.extend(_run(content, start, end))
    if content.ends:
        told.append(Claim(Kind.END, end))
    said = [[t.kind, t.key, t.place, t.rank, t.tool, t.call_id, t.args, t.result, t.error] for t in told]
    digest = hashlib.blake2b(orjson.dumps(said), digest_size=_DIGEST_BYTES).hexdigest()
    inputs = len(content.input or ())
    return tuple(one for one in told if half_of(one, inputs) not in without), digest


def half_of(claim: Claim, inputs: int) -> str:
    """Return the half of a conversation of which a telling is; empty for what is no part of one."""
    if claim.place is None:
        return ""
    return INPUT if claim.place < inputs else OUTPUT


class _Setting(msgspec.Struct, frozen=True):
    """What all tellings of one message share, as in `Claim`."""

    time: int
    place: int
    past: bool
    key: str
    answered: bool
    error: str | None


def _conversation(content: SpanContent, start: int, end: int) -> Iterator[Claim]:
    """Yield the messages of a model's call, or of an agent's, in their order."""
    heard, spoken = with_ids_of_results(content.input or ()), content.output or ()
    calls = OpenCalls()
    if content.input is None and content.role is SpanRole.CHAT:
        # Before the outputs, which begin at 0, also where the span's clock has but one time.
        yield Claim(Kind.UNKNOWN, start, content=content.content, place=-1)
    last = max((i for i, message in enumerate(heard) if message.role is Role.ASSISTANT), default=-1)
    key, answered = "", False
    for place, message in enumerate((*heard, *spoken)):
        if message.role is Role.INSTRUCTION:
            continue
        key = _key(key, message)
        if place < len(heard):
            setting = _Setting(start, place, place <= last, key, answered, None)
        else:
            setting = _Setting(end, place, False, key, answered, content.error)
        yield from _message(message, setting, calls)
        answered = answered or message.role is Role.ASSISTANT
    if content.output is None and content.role is SpanRole.CHAT:
        yield Claim(Kind.UNKNOWN, end, content=content.content, place=len(heard))


def _message(message: Message, setting: _Setting, calls: OpenCalls) -> Iterator[Claim]:
    """Yield what one message says; a result carries tool and arguments of the call that it answers."""
    ranks = count()
    if message.role is Role.USER and (message.text is not None or not message.results):
        yield _telling(Kind.USER, setting, next(ranks), message.content, text=message.text)
    is_hidden = message.content is not Content.CAPTURED
    if message.role is Role.ASSISTANT and (
        message.text or is_hidden or not (message.calls or message.results)
    ):
        yield _telling(Kind.ASSISTANT, setting, next(ranks), message.content, text=message.text)
    for call in message.calls:
        calls.add(OpenCall(setting.place, call.call_id, call.tool, call.args, nested=False))
        said = {"tool": call.tool, "call_id": call.call_id, "args": call.args}
        yield _telling(Kind.TOOL_CALL, setting, next(ranks), call.content, **said)
    for result in message.results:
        open_call = calls.answer(result.call_id, result.tool, strict=True)
        of_call = open_call or OpenCall(0, None, None, None, nested=False)
        yield _telling(
            Kind.TOOL_RESULT,
            setting,
            next(ranks),
            result.content,
            tool=result.tool if result.tool is not None else of_call.tool,
            call_id=result.call_id if result.call_id is not None else of_call.call_id,
            args=of_call.args,
            result=result.result,
            error=result.error,
        )


def _telling(
    kind: Kind,
    setting: _Setting,
    rank: int,
    content: Content,
    *,
    text: str | None = None,
    tool: str | None = None,
    call_id: str | None = None,
    args: str | None = None,
    result: str | None = None,
    error: str | None = None,
) -> Claim:
    return Claim(
        kind,
        setting.time,
        text,
        tool,
        call_id,
        args,
        result,
        error or setting.error,
        content,
        setting.place,
        rank,
        setting.past,
        f"{setting.key}.{rank}",
        setting.answered,
    )


def _run(content: SpanContent, start: int, end: int) -> Iterator[Claim]:
    """Yield a tool's run: the call at its start, what it returned at its end."""
    call, result = content.call, content.result
    tool = (call and call.tool) or (result and result.tool)
    call_id = (call and call.call_id) or (result and result.call_id)
    args = call.args if call else None
    yield Claim(
        Kind.TOOL_CALL,
        start,
        tool=tool,
        call_id=call_id,
        args=args,
        content=call.content if call else Content.ABSENT,
    )
    yield Claim(
        Kind.TOOL_RESULT,
        end,
        tool=tool,
        call_id=call_id,
        args=args,
        result=result.result if result else None,
        error=(result and result.error) or content.error,
        content=result.content if result else Content.ABSENT,
    )


def _key(before: str, message: Message) -> str:
    """Return the digest of a message and all before it; arguments in canonical form."""
    said = [
        before,
        message.role,
        message.text,
        [[c.call_id, c.tool, None if c.args is None else canonical_text(c.args)] for c in message.calls],
        [[r.call_id, r.result] for r in message.results],
    ]
    return hashlib.blake2b(orjson.dumps(said), digest_size=_DIGEST_BYTES).hexdigest()


def with_ids_of_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with the ids of calls made those of their results, where none of the two agree.

    OpenAI's Responses have an id for the item that is a call beside the call's own. Results whose ids fit no
    call answer the calls right before them in order, where they are as many and name no other tools.
    """
    asked = {call.call_id for message in messages for call in message.calls}
    if all(result.call_id in asked or not result.call_id for one in messages for result in one.results):
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
