"""The events of claims, at their places in their sessions."""

from __future__ import annotations

from ..candidate import Candidate, Claim
from ..event import Content, Event, Kind

OF_TOOLS = (Kind.TOOL_CALL, Kind.TOOL_RESULT)
"""The kinds of events that are of a tool."""
_CAPTURED = Content.CAPTURED
"""A name of its own, because Python 3.11 looks a member up four times as long as a global name."""


def event_of(claim: Claim, candidate: Candidate, at: tuple[int, int], event_id: str, *, late: bool) -> Event:
    """Return the event of a claim; it is `at` an occurrence and a `seq`."""
    occurrence, seq = at
    content = claim.content
    if content is _CAPTURED and claim.tool is None and claim.kind in OF_TOOLS:
        # Every call is of a tool: where no span names it, the name was not captured.
        content = Content.ABSENT
    # In the order of the fields: names would take twice the time.
    return Event(
        candidate.session_id,
        occurrence,
        claim.time,
        seq,
        claim.kind,
        late,
        claim.past,
        candidate.agent,
        candidate.model,
        candidate.service,
        candidate.nested,
        claim.text,
        claim.tool,
        claim.call_id,
        claim.args,
        claim.result,
        claim.error,
        content,
        candidate.trace_id or None,
        candidate.span_id or None,
        event_id,
        candidate.attributes,
    )
