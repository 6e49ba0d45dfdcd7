"""Simulated conversations as judged events, event frames and OpenAI-style chat logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

import polars as pl

from ...schemas.event import Event, Kind, content_of, end_event, event_id
from ...schemas.frames import events as frame
from ...schemas.time import rfc3339
from .bot import DeskConversation
from .scene import SceneStep


def events(conversation: DeskConversation) -> tuple[Event, ...]:
    """Return the conversation as judged events, `seq` from 1, with an `end` row last."""
    start = conversation.start_ns
    equals: Counter[str] = Counter()
    rows: list[Event] = []
    for step in conversation.steps:
        content = content_of(step)
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
    last = rows[-1]
    return (*rows, end_event(last.session_id, start, last.time, last.seq + 1, {"end": "complete"}))


def event_frame(chats: Iterable[DeskConversation]) -> pl.DataFrame:
    """Return the conversations in sequence as rows of the event frame."""
    return frame.event_frame([event for conversation in chats for event in events(conversation)])


def chat_log(conversation: DeskConversation) -> dict[str, object]:
    """Return the conversation as an object with `id`, `agent`, `model`, `service` and chat `messages`.

    It has no messages between the agent and its sub-agents, like a real log.
    """
    visible = (step for step in conversation.steps if not step.nested)
    messages = [_message(list(steps)) for _, steps in groupby(visible, key=lambda step: step.message)]
    return {
        "id": conversation.session_id,
        "agent": conversation.agent.name,
        "model": conversation.agent.model,
        "service": conversation.agent.service,
        "messages": messages,
    }


def _message(steps: list[SceneStep]) -> dict[str, object]:
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
