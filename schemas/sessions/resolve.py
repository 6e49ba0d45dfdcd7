"""Candidates from span readings: each span's session, and what it inherits (session assembly, stage a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..candidate import CallHistory, Candidate, Claim
from ..chat.find import InputFlaw
from ..claims.span_claims import claims_of, half_of, parted_claims
from ..plain.runs import run_claims
from ..plain.span import PlainSpan
from ..span_content import INPUT, SpanContent, SpanRole, ToolCall
from .coverage import CallRun, Coverage, completed_call, covers
from .late_ends import end_inside
from .span_reading import SessionMemory, SpanReading, claimed_content
from .trace import Trace

_AGENT, _CHAT, _TOOL = SpanRole.AGENT, SpanRole.CHAT, SpanRole.TOOL
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""


def candidate_of(
    trace: Trace, reading: SpanReading, coverage: Coverage, above: Sequence[SpanReading] | None = None
) -> Candidate | InputFlaw:
    """Return the span with its session and what it inherits from its trace; a flaw where it has no time.

    `coverage` is that of the trace, `above` are the span's ancestors if they are known.
    """
    above = trace.above(reading) if above is None else above
    chain = (reading, *above)
    times = _times(chain)
    if times is None:
        return InputFlaw("", "span-time", "has no time, nor has its parent, and nobody noted when it came")
    key = reading.key
    covered = coverage.halves(key)
    without = covered if len(covered) == 1 else ()
    run = None if without else coverage.runs.get(key)
    agent, model, service = _named(chain)
    claims: tuple[Claim, ...] = ()
    digest = ""
    if not reading.request:
        claims, digest = _claims(reading.content, times, without, run)
    return Candidate(
        session_id=reading.scope + _session_key(trace, chain),
        role=reading.content.role,
        start=times[0],
        end=times[1],
        claims=claims,
        trace_id=reading.trace_id,
        span_id=reading.span_id,
        digest=digest,
        failed=reading.content.error is not None,
        within=tuple(covers(reading, above)) if above else (),
        covered=len(covered) > 1,
        agent=agent,
        model=model,
        service=service,
        nested=_is_nested(chain, coverage),
        attributes=reading.content.attributes,
        request=reading.request,
        without=without if reading.request else (),
        run=run if reading.request else None,
        origin=reading.origin if reading.request else None,
    )


def whole_candidate(
    candidate: Candidate, plain: PlainSpan | None, memory: SessionMemory | None = None
) -> Candidate:
    """Return the candidate with its claims, read from the request of its span if it has one.

    `plain` is the span of the request where it is plain; without it the result is the same. With the `memory`
    of its session the candidate may have its past claims as a history.
    """
    if not candidate.request:
        return candidate
    is_alone = candidate.run is None and not candidate.without
    if plain is not None and memory is not None and is_alone and candidate.role is _TOOL:
        run = run_claims(plain, candidate.start, candidate.end)
        if run is not None:
            return _whole(candidate, *run, plain.attributes)
    times = candidate.start, candidate.end
    content, remembered = claimed_content(candidate.request, plain, memory)
    if remembered is None or candidate.run is not None:
        claims, digest = _claims(content, times, candidate.without, candidate.run)
        return _whole(candidate, claims, digest, content.attributes)
    history, claims, digest = parted_claims(content, *times, remembered)
    claims = _uncovered(claims, content, candidate.without)
    history = None if INPUT in candidate.without else history
    return _whole(candidate, claims, digest, content.attributes, history)


def _whole(
    candidate: Candidate,
    claims: tuple[Claim, ...],
    digest: str,
    attributes: Mapping[str, str],
    history: CallHistory | None = None,
) -> Candidate:
    """Return a candidate with its claims instead of its request."""
    return msgspec.structs.replace(
        candidate,
        claims=claims,
        digest=digest,
        attributes=attributes,
        request=b"",
        without=(),
        run=None,
        origin=None,
        history=history,
    )


def _claims(
    content: SpanContent, times: tuple[int, int], without: tuple[str, ...], run: CallRun | None
) -> tuple[tuple[Claim, ...], str]:
    """Return the claims of a span that other spans do not make, and the digest of all its claims.

    `without` are the halves that other spans claim, `run` is a tool's run as other spans complete it.
    """
    claims, digest = claims_of(content, *times)
    if run is not None and not without:
        claims, _ = claims_of(_with_run(content, *run), *times)
    return _uncovered(claims, content, without), digest


def _uncovered(
    claims: tuple[Claim, ...], content: SpanContent, without: tuple[str, ...]
) -> tuple[Claim, ...]:
    """Return claims without those of halves that other spans claim."""
    if not without:
        return claims
    inputs = len(content.input or ())
    return tuple(claim for claim in claims if half_of(claim, inputs) not in without)


def omitted_claims(trace: Trace, reading: SpanReading, coverage: Coverage) -> tuple[Claim, ...]:
    """Return the claims of a span that its candidate lacks, since other spans of the trace make them.

    Where both halves of a conversation are covered the candidate has their claims, and is `covered`.
    """
    covered, times = coverage.halves(reading.key), _times((reading, *trace.above(reading)))
    if len(covered) != 1 or times is None:
        return ()
    inputs = len(reading.content.input or ())
    return tuple(
        claim for claim in claims_of(reading.content, *times)[0] if half_of(claim, inputs) in covered
    )


def _with_run(content: SpanContent, call: ToolCall, error: str | None) -> SpanContent:
    """Return a tool's run completed from other spans; another span with its ids may run another tool."""
    if content.call is None or content.call.tool != call.tool:
        return content
    return msgspec.structs.replace(
        content, call=completed_call(content.call, call), error=content.error or error
    )


def _session_key(trace: Trace, chain: Sequence[SpanReading]) -> str:
    """Return the nearest key among the span and its ancestors, else the trace's first, else the trace id.

    A conversation of its own in a run below a tool is a sub-agent's: its session is the caller's.
    """
    keyed: SpanReading | None = None
    for span in chain:
        if span.content.role is SpanRole.TOOL and span is not chain[0] and keyed is not None:
            keyed = None if trace.may_be_sub_agents(keyed) else keyed
        if keyed is None and span.content.session is not None:
            keyed = span
    keyed = keyed or trace.keyed
    session = None if keyed is None else keyed.content.session
    return chain[0].trace_id if session is None else session


def _named(chain: Sequence[SpanReading]) -> tuple[str | None, str | None, str | None]:
    """Return agent, model and service, each of the nearest span that names it."""
    agent = model = service = None
    for span in chain:
        content = span.content
        agent = content.agent if agent is None else agent
        model = content.model if model is None else model
        service = content.service if service is None else service
    return agent, model, service


def _times(chain: Sequence[SpanReading]) -> tuple[int, int] | None:
    """Return start and end: each else the other, else the parent's, else when the span was received."""
    for span in chain:
        if span.ended:
            end = span.ended
            if span.coarse:
                end = end_inside(end, (upper.ended for upper in chain[1:] if upper.content.role is _TOOL))
            return min(span.began, end), end
    received = chain[0].record_time
    return (received, received) if received else None


def _is_nested(chain: Sequence[SpanReading], coverage: Coverage) -> bool:
    """Return whether a span belongs to a sub-agent: an agent below another one, or one that works for a tool.

    An explicit attribute of the span, or of a span between it and the agent, wins.
    """
    agents: set[str] = set()
    runs = 0
    works = False
    helpers = coverage.helpers
    for span in chain:
        content = span.content
        if content.nested is not None:
            return content.nested
        role = content.role
        if (works and role is _TOOL) or (helpers and span.key in helpers):
            return True
        is_agent = role is _AGENT
        works = works or is_agent or role is _CHAT
        runs += span.apart and is_agent
        if runs > 1:
            return True
        if is_agent and content.agent is not None:
            agents.add(content.agent)
            if len(agents) > 1:
                return True
    return False
