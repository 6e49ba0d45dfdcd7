"""The events of claims, at their places in their sessions."""

from __future__ import annotations

from ..candidate import Candidate, Claim
from ..event import Content, Event, Kind

OF_TOOLS = (Kind.TOOL_CALL, Kind.TOOL_RESULT)
"""The kinds of events that are of a tool."""
_CAPTURED, _CALL, _RESULT = Content.CAPTURED, Kind.TOOL_CALL, Kind.TOOL_RESULT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""


def event_of(claim: Claim, candidate: Candidate, at: tuple[int, int], event_id: str, *, late: bool) -> Event:
    """Return the event of a claim; it is `at` an occurrence and a `seq`."""
    occurrence, seq = at
    content = claim.content
    kind = claim.kind
    if claim.tool is None and content is _CAPTURED and (kind is _CALL or kind is _RESULT):
        # Every call is of a tool: where no span names it, the name was not captured.
        content = Content.ABSENT
    # In the order of the fields: names would take twice the time.
    return Event(
        candidate.session_id,
        occurrence,
        claim.time,
        seq,
        kind,
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
