"""Simulated conversations as judged events and event frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import polars as pl

from ...schemas.event import Event, Kind, content_of, end_event, event_id
from ...schemas.frames import events as frame
from .bot import DeskConversation


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
