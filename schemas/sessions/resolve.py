"""Candidates from span readings: each span's session, and what it inherits (session assembly, stage a)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..candidate import Candidate, Claim
from ..chat.find import InputFlaw
from ..span_content import SpanContent, SpanRole, ToolCall
from .claims import claims_of, half_of
from .coverage import Coverage, completed_call, covers
from .span_reading import CLOCK_ERROR, SpanReading
from .trace import Trace

_SPEAKING = (SpanRole.CHAT, SpanRole.AGENT)


def candidate_of(trace: Trace, reading: SpanReading, coverage: Coverage) -> Candidate | InputFlaw:
    """Return the span with its session, by what is known of its trace; a flaw where nothing says when it was.

    `told_inside` is that of the trace.
    """
    above = trace.above(reading)
    chain = (reading, *above)
    times = _times(chain)
    if times is None:
        return InputFlaw("", "span-time", "has no time, nor has its parent, and nobody noted when it came")
    told, digest = claims_of(reading.content, *times)
    left = coverage.halves(reading.key)
    if len(left) == 1:
        told, _ = claims_of(reading.content, *times, without=left)
    elif (run := coverage.runs.get(reading.key)) is not None:
        told, _ = claims_of(_with_run(reading.content, *run), *times)
    return Candidate(
        session_id=reading.scope + _session_key(trace, chain),
        role=reading.content.role,
        start=times[0],
        end=times[1],
        claims=told,
        trace_id=reading.trace_id,
        span_id=reading.span_id,
        digest=digest,
        failed=reading.content.error is not None,
        within=tuple(covers(reading, above)),
        covered=len(left) > 1,
        agent=_nearest(one.content.agent for one in chain),
        model=_nearest(one.content.model for one in chain),
        service=_nearest(one.content.service for one in chain),
        nested=_is_nested(chain, coverage),
        attributes=reading.content.attributes,
    )


def omitted_claims(trace: Trace, reading: SpanReading, coverage: Coverage) -> tuple[Claim, ...]:
    """Return the readings of a span that its candidate lacks: other spans of its trace are read instead.

    Where that is so of both halves of a conversation the candidate has them, and is `covered`.
    """
    left, times = coverage.halves(reading.key), _times((reading, *trace.above(reading)))
    if len(left) != 1 or times is None:
        return ()
    inputs = len(reading.content.input or ())
    return tuple(one for one in claims_of(reading.content, *times)[0] if half_of(one, inputs) in left)


def _with_run(content: SpanContent, call: ToolCall, error: str | None) -> SpanContent:
    """Return a tool's run with what others know of it; another span under its ids may run another tool."""
    if content.call is None or content.call.tool != call.tool:
        return content
    return msgspec.structs.replace(
        content, call=completed_call(content.call, call), error=content.error or error
    )


def _session_key(trace: Trace, chain: Sequence[SpanReading]) -> str:
    """Its own key, else its nearest ancestor's, else that of its trace's earliest span, else the trace id.

    A conversation that a run below a tool has of its own is a sub-agent's: its session is the caller's.
    """
    said: SpanReading | None = None
    for one in chain:
        if one.content.role is SpanRole.TOOL and one is not chain[0] and said is not None:
            said = None if trace.may_be_sub_agents(said) else said
        if said is None and one.content.session is not None:
            said = one
    keyed = said or trace.keyed
    own = None if keyed is None else keyed.content.session
    return chain[0].trace_id if own is None else own


def _nearest(said: Iterable[str | None]) -> str | None:
    return next((one for one in said if one is not None), None)


def _times(chain: Sequence[SpanReading]) -> tuple[int, int] | None:
    """Start and end: each else the other, else the parent's, else when the span was received."""
    for one in chain:
        start, end = one.start or one.end, one.end or one.start
        if end:
            end = _inside(end, chain[1:]) if one.coarse else end
            return min(start, end), end
    received = chain[0].record_time
    return (received, received) if received else None


def _inside(end: int, above: Sequence[SpanReading]) -> int:
    """Return the end of a span, which is not after that of a tool's run around it by the clock's error alone.

    JavaScript's SDK takes the ends of spans from clocks that differ by less than a millisecond.
    """
    tools = (upper.ended for upper in above if upper.content.role is SpanRole.TOOL)
    return min((told for told in tools if told < end <= told + CLOCK_ERROR), default=end)


def _is_nested(chain: Sequence[SpanReading], coverage: Coverage) -> bool:
    """Whether a span belongs to a sub-agent: to an agent below another one, or to one that works for a tool.

    What a span says of itself and of those below it goes before.
    """
    agents: set[str] = set()
    runs = 0
    works = False
    for one in chain:
        if one.content.nested is not None:
            return one.content.nested
        if (one.content.role is SpanRole.TOOL and works) or one.key in coverage.helpers:
            return True
        works = works or one.content.role in _SPEAKING
        runs += one.apart and one.content.role is SpanRole.AGENT
        if runs > 1:
            return True
        if one.content.role is SpanRole.AGENT and one.content.agent is not None:
            agents.add(one.content.agent)
            if len(agents) > 1:
                return True
    return False
