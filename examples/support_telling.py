"""How simulated conversations are told: as judged events, as an event frame, as OpenAI-style chat logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

import polars as pl

from ..schemas.event import Event, Kind, event_content, event_id
from ..schemas.frame import EVENT_SCHEMA
from ..schemas.time import rfc3339
from .support_bot import Conversation, Desk, conversations
from .support_scene import Step


def events(conversation: Conversation) -> tuple[Event, ...]:
    """The conversation as judged events, `seq` from 1, with an `end` row last."""
    start = conversation.start_ns
    equals: Counter[str] = Counter()
    rows: list[Event] = []
    for step in conversation.steps:
        content = event_content(
            step.kind,
            text=step.text,
            tool=step.tool,
            call_id=step.call_id,
            args=step.args,
            result=step.result,
        )
        key = repr((step.kind, content))
        row = Event(
            session_id=conversation.session_id,
            occurrence=start,
            time=step.time_ns,
            seq=len(rows) + 1,
            kind=Kind(step.kind),
            agent=conversation.agent.name,
            model=conversation.agent.model,
            service=conversation.agent.service,
            nested=step.nested,
            text=step.text,
            tool=step.tool,
            call_id=step.call_id,
            args=step.args,
            result=step.result,
            error=step.error,
            event_id=event_id(conversation.session_id, start, step.kind, content, equals[key]),
        )
        rows.append(row)
        equals[key] += 1
    return (*rows, _end(rows[-1]))


def _end(last: Event) -> Event:
    """The row that says that the session is over, at the time of its last event."""
    return Event(
        session_id=last.session_id,
        occurrence=last.occurrence,
        time=last.time,
        seq=last.seq + 1,
        kind=Kind.END,
        event_id=event_id(last.session_id, last.occurrence, Kind.END, event_content(Kind.END), 0),
        attributes={"end": "complete"},
    )


def event_frame(told: Iterable[Conversation]) -> pl.DataFrame:
    """The conversations, one after the other, as one frame with the columns of `EVENT_SCHEMA`."""
    rows = [event for conversation in told for event in events(conversation)]
    columns = {name: [getattr(row, name) for row in rows] for name in EVENT_SCHEMA}
    return pl.DataFrame(columns, schema=EVENT_SCHEMA)


def event_frames(desk: Desk, sessions: int = 2_000) -> Iterator[pl.DataFrame]:
    """All conversations of a desk as frames of that many sessions, made one at a time."""
    told = conversations(desk)
    while block := list(islice(told, sessions)):
        yield event_frame(block)


def chat_log(conversation: Conversation) -> dict[str, object]:
    """The conversation as an object with `id`, `agent`, `model`, `service` and OpenAI-style `messages`.

    What passed between the agent and assistants of its own is not in it, as in a real log.
    """
    own = (step for step in conversation.steps if not step.nested)
    messages = [_message(list(steps)) for _, steps in groupby(own, key=lambda step: step.message)]
    return {
        "id": conversation.session_id,
        "agent": conversation.agent.name,
        "model": conversation.agent.model,
        "service": conversation.agent.service,
        "messages": messages,
    }


def chat_lines(told: Iterable[Conversation]) -> Iterator[str]:
    """The conversations as JSON lines without line ends, one chat log each."""
    return (json.dumps(chat_log(conversation)) for conversation in told)


def _message(steps: list[Step]) -> dict[str, object]:
    first = steps[0]
    message: dict[str, object] = {"timestamp": rfc3339(first.time_ns)}
    if first.kind == Kind.TOOL_RESULT:
        message |= {
            "role": "tool",
            "tool_call_id": first.call_id,
            "name": first.tool,
            "content": first.result,
        }
        return message | ({"error": first.error} if first.error else {})
    if first.kind != Kind.TOOL_CALL:
        return message | {"role": first.kind, "content": first.text}
    calls = [
        {"id": step.call_id, "type": "function", "function": {"name": step.tool, "arguments": step.args}}
        for step in steps
    ]
    return message | {"role": "assistant", "content": None, "tool_calls": calls}
