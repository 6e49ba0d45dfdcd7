"""What a step tells, thing by thing: messages, calls, results, and the halves that were not captured."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import orjson

from .calls import Call as OpenCall
from .calls import OpenCalls
from .candidate import Telling
from .event import Content, Kind, canonical_text
from .step import Message, Part, Role, Step

_DIGEST_BYTES = 16


def tellings(step: Step, start: int, end: int) -> tuple[tuple[Telling, ...], str]:
    """The tellings of a step that began and ended then, and a digest of them, 32 hex digits.

    A model's input is told at its start, its output at its end, and so are a tool's call and result. A half
    whose messages were not captured is one `unknown` event; a call that failed without output had none.
    """
    told: list[Telling] = []
    if step.part in (Part.CHAT, Part.AGENT):
        told.extend(_conversation(step, start, end))
    elif step.part is Part.TOOL:
        told.extend(_run(step, start, end))
    if step.ends:
        told.append(Telling(Kind.END, end))
    said = [[t.kind, t.key, t.place, t.rank, t.tool, t.call_id, t.args, t.result, t.error] for t in told]
    return tuple(told), hashlib.blake2b(orjson.dumps(said), digest_size=_DIGEST_BYTES).hexdigest()


def _conversation(step: Step, start: int, end: int) -> Iterator[Telling]:
    """The messages of a model's call, or of an agent's, in their order."""
    heard, spoken = step.input or (), step.output or ()
    calls = OpenCalls()
    if step.input is None and step.part is Part.CHAT:
        yield Telling(Kind.UNKNOWN, start, content=step.content)
    last = max((i for i, message in enumerate(heard) if message.role is Role.ASSISTANT), default=-1)
    key, answered = "", False
    for place, message in enumerate((*heard, *spoken)):
        if message.role is Role.INSTRUCTION:
            continue
        is_input = place < len(heard)
        key = _key(key, message)
        for rank, telling in enumerate(_message(message, place, calls)):
            yield replace(
                telling,
                time=start if is_input else end,
                error=telling.error or (None if is_input else step.error),
                place=place,
                rank=rank,
                past=is_input and place <= last,
                key=f"{key}.{rank}",
                answered=answered,
            )
        answered = answered or message.role is Role.ASSISTANT
    if step.output is None and step.part is Part.CHAT and step.error is None:
        yield Telling(Kind.UNKNOWN, end, content=step.content, place=len(heard))


def _message(message: Message, place: int, calls: OpenCalls) -> Iterator[Telling]:
    """What one message says; a result carries tool and arguments of the call that it answers."""
    if message.role is Role.USER and (message.text is not None or not message.results):
        yield Telling(Kind.USER, 0, text=message.text, content=message.content)
    if message.role is Role.ASSISTANT and (message.text or not (message.calls or message.results)):
        yield Telling(Kind.ASSISTANT, 0, text=message.text, content=message.content)
    for call in message.calls:
        calls.add(OpenCall(place, call.call_id, call.tool, call.args, nested=False))
        yield Telling(
            Kind.TOOL_CALL, 0, tool=call.tool, call_id=call.call_id, args=call.args, content=call.content
        )
    for result in message.results:
        call = calls.answer(result.call_id, result.tool, strict=True)
        yield Telling(
            Kind.TOOL_RESULT,
            0,
            tool=result.tool if result.tool is not None or call is None else call.tool,
            call_id=result.call_id if result.call_id is not None or call is None else call.call_id,
            args=None if call is None else call.args,
            result=result.result,
            error=result.error,
            content=result.content,
        )


def _run(step: Step, start: int, end: int) -> Iterator[Telling]:
    """A tool's run: the call at its start, what it returned at its end."""
    call, result = step.call, step.result
    tool = (call and call.tool) or (result and result.tool)
    call_id = (call and call.call_id) or (result and result.call_id)
    args = call.args if call else None
    yield Telling(
        Kind.TOOL_CALL,
        start,
        tool=tool,
        call_id=call_id,
        args=args,
        content=call.content if call else Content.ABSENT,
    )
    yield Telling(
        Kind.TOOL_RESULT,
        end,
        tool=tool,
        call_id=call_id,
        args=args,
        result=result.result if result else None,
        error=(result and result.error) or step.error,
        content=result.content if result else Content.ABSENT,
    )


def _key(before: str, message: Message) -> str:
    """The digest of a message and all before it; arguments in canonical form."""
    said = [
        before,
        message.role,
        message.text,
        [[c.call_id, c.tool, None if c.args is None else canonical_text(c.args)] for c in message.calls],
        [[r.call_id, r.result] for r in message.results],
    ]
    return hashlib.blake2b(orjson.dumps(said), digest_size=_DIGEST_BYTES).hexdigest()
