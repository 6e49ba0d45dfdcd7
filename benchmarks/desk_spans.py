"""The simulated support desk's conversations as spans, several conversations at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.script import support_session
from tracline.schemas.span import Span
from tracline.schemas.time import NS

from tests.support.conversations.agent_spans import spans
from tests.support.conversations.scripts import START_NS, later
from tests.support.conversations.span_plan import Manner

AT_ONCE = 50
"""The number of concurrent conversations."""


def desk_spans(wanted: int, at_once: int = AT_ONCE, manner: Manner | None = None) -> list[Span]:
    """Return at least that many spans, in the order of their ends; a conversation begins each second."""
    sessions = map(support_session, conversations(Desk(sessions=wanted)))
    every: list[Span] = []
    begins = START_NS
    while len(every) < wanted:
        together = [
            later(session, begins + place * NS - session.lines[0].time)
            for place, session in enumerate(islice(sessions, at_once))
        ]
        every += sorted(
            (span for session in together for span in spans(session, manner or Manner())),
            key=lambda span: span.end,
        )
        begins = every[-1].end
    return every


def traces(every: Sequence[Span]) -> list[list[Span]]:
    """Return the spans of each trace in order, as a collector sends them that partitions by trace."""
    by_trace: dict[str, list[Span]] = {}
    for span in every:
        by_trace.setdefault(span.trace_id, []).append(span)
    return sorted(by_trace.values(), key=lambda trace: trace[-1].end)


def moved(every: Sequence[Span], by_ns: int) -> Iterator[Span]:
    """Yield the same spans, later by that time."""
    return (msgspec.structs.replace(span, start=span.start + by_ns, end=span.end + by_ns) for span in every)
