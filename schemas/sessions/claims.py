"""The claims of one span: its messages, calls and results, and the halves that were not captured."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

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
    """Return the claims of a span with that start and end, and a digest of them, 32 hex digits.

    A model's input and a tool's call have the start's time, a model's output and a tool's result the end's. A
    half that was not captured is one `unknown` event. The halves `without` (`INPUT`, `OUTPUT`) of a
    conversation are left out, but are part of the digest.
    """
    claims: list[Claim] = []
    if content.role in (SpanRole.CHAT, SpanRole.AGENT):
        claims.extend(_conversation(content, start, end))
    elif content.role is SpanRole.TOOL:
        claims.extend(_run(content, start, end))
    if content.ends:
        claims.append(Claim(Kind.END, end))
    fields = [[c.kind, c.key, c.place, c.rank, c.tool, c.call_id, c.args, c.result, c.error] for c in claims]
    digest = hashlib.blake2b(orjson.dumps(fields), digest_size=_DIGEST_BYTES).hexdigest()
    inputs = len(content.input or ())
    return tuple(claim for claim in claims if half_of(claim, inputs) not in without), digest


def half_of(claim: Claim, inputs: int) -> str:
    """Return the half of a conversation that a claim belongs to; empty for a claim of none."""
    if claim.place is None:
        return ""
    return INPUT if claim.place < inputs else OUTPUT


def _conversation(content: SpanContent, start: int, end: int) -> Iterator[Claim]:
    """Yield the claims of the messages of a model's call, or of an agent's, in their order."""
    inputs, outputs = with_ids_of_results(content.input or ()), content.output or ()
    calls = OpenCalls()
    if content.input is None and content.role is SpanRole.CHAT:
        # It sorts before the outputs, which begin at 0, also where start and end are one time.
        yield Claim(Kind.UNKNOWN, start, content=content.content, place=-1)
    last = max((i for i, message in enumerate(inputs) if message.role is Role.ASSISTANT), default=-1)
    key, answered = "", False
    for place, message in enumerate((*inputs, *outputs)):
        if message.role is Role.INSTRUCTION:
            continue
        key = _key(key, message)
        is_input = place < len(inputs)
        shared = Claim(
            Kind.UNKNOWN,
            start if is_input else end,
            error=None if is_input else content.error,
            place=place,
            past=place <= last,
            key=key,
            answered=answered,
        )
        for rank, claim in enumerate(_message(message, shared, calls)):
            yield msgspec.structs.replace(claim, rank=rank, key=f"{key}.{rank}")
        answered = answered or message.role is Role.ASSISTANT
    if content.output is None and content.role is SpanRole.CHAT:
        yield Claim(Kind.UNKNOWN, end, content=content.content, place=len(inputs))


def _message(message: Message, shared: Claim, calls: OpenCalls) -> Iterator[Claim]:
    """Yield the claims of one message, which are `shared` with the kind and the content of each.

    A result carries tool and arguments of the call that it answers.
    """
    if message.role is Role.USER and (message.text is not None or not message.results):
        yield msgspec.structs.replace(shared, kind=Kind.USER, content=message.content, text=message.text)
    is_hidden = message.content is not Content.CAPTURED
    if message.role is Role.ASSISTANT and (
        message.text or is_hidden or not (message.calls or message.results)
    ):
        yield msgspec.structs.replace(shared, kind=Kind.ASSISTANT, content=message.content, text=message.text)
    for call in message.calls:
        calls.add(OpenCall(shared.place or 0, call.call_id, call.tool, call.args, nested=False))
        yield msgspec.structs.replace(
            shared,
            kind=Kind.TOOL_CALL,
            content=call.content,
            tool=call.tool,
            call_id=call.call_id,
            args=call.args,
        )
    for result in message.results:
        open_call = calls.answer(result.call_id, result.tool, strict=True)
        of_call = open_call or OpenCall(0, None, None, None, nested=False)
        yield msgspec.structs.replace(
            shared,
            kind=Kind.TOOL_RESULT,
            content=result.content,
            tool=result.tool if result.tool is not None else of_call.tool,
            call_id=result.call_id if result.call_id is not None else of_call.call_id,
            args=of_call.args,
            result=result.result,
            error=result.error or shared.error,
        )


def _run(content: SpanContent, start: int, end: int) -> Iterator[Claim]:
    """Yield the claims of a tool's run: the call at its start, the result at its end."""
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
    fields = [
        before,
        message.role,
        message.text,
        [[c.call_id, c.tool, None if c.args is None else canonical_text(c.args)] for c in message.calls],
        [[r.call_id, r.result] for r in message.results],
    ]
    return hashlib.blake2b(orjson.dumps(fields), digest_size=_DIGEST_BYTES).hexdigest()


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
