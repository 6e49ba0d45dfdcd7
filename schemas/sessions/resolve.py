"""Session assembly, stage (a): whose session a span belongs to, and what it inherits from others."""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from ..candidate import Candidate, Claim, role_key
from ..chat.find import InputFlaw
from ..chat.message import string_of
from ..dialects import read_content
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.names import scopes
from ..dialects.parts.log_record import LogRecord, events_of
from ..dialects.parts.log_records import joined
from ..span import Span, Value
from ..step import SpanContent, SpanRole, ToolCall
from .claims import claims_of, half_of
from .coverage import Coverage, captured_halves, completed_call, coverage_of, covers

ANCESTORS_MAX = 200
"""Spans above one that are looked at: what is further up is not known to it."""
SAME_ID_MAX = 100
"""Spans sent under one id, the earliest, among which a parent is looked for."""
KEYS_MAX = 1_000
"""Session keys of a trace that are remembered."""

CLOCK_ERROR = 1_000_000
"""Nanoseconds by which a span may seem to outlive one that waits for it."""
_SPEAKING = (SpanRole.CHAT, SpanRole.AGENT)
_NEVER = 1 << 64
_NO_CALL = ToolCall(None, None, None)


@dataclass(frozen=True, slots=True)
class SpanReading:
    """A span as it came, with what it says; times in nanoseconds since the epoch (0: not said).

    `scope` is what is put before its session's id. `record_time` is when it was received, 0 where nobody
    wrote that down. `tells` is whether it tells of messages, calls or results. `origin` is the record that
    it came in, by offset and SHA-256; None where there are no records. `captured` are its `halves` where the
    content itself is no longer here. `beside` is whether its instrumentation puts agents beside each other,
    also where one works for a tool of another; `apart` is whether it has one span for each run of an agent.
    `coarse` is whether its clock may be wrong by `CLOCK_ERROR`. `is_joined` is whether log records have added
    to it.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    start: int
    end: int
    step: SpanContent
    scope: str = ""
    record_time: int = 0
    tells: bool = True
    origin: tuple[int, bytes] | None = None
    captured: tuple[str, ...] | None = None
    beside: bool = False
    coarse: bool = False
    is_joined: bool = False
    apart: bool = False

    @property
    def is_named(self) -> bool:
        """Return whether it says session and agent."""
        return self.step.session is not None and self.step.agent is not None

    @property
    def halves(self) -> tuple[str, ...]:
        """The halves of what it tells whose content was captured."""
        return captured_halves(self.step) if self.captured is None else self.captured

    @property
    def age(self) -> tuple[int | str, ...]:
        """Return what sorts earlier spans first, and tells all that differ apart."""
        return _age(self)

    @property
    def began(self) -> int:
        """When it began, as far as it says that itself."""
        return self.start or self.end

    @property
    def ended(self) -> int:
        """When it ended, as far as it says that itself."""
        return self.end or self.start

    @property
    def key(self) -> str:
        """Return what `Candidate.within` calls it."""
        return role_key(self.step.part, self.trace_id, self.span_id)

    def bare(self) -> SpanReading:
        """Return what others inherit from it, without what it tells."""
        step = self.step
        said = SpanContent(
            part=step.part,
            session=step.session,
            agent=step.agent,
            model=step.model,
            service=step.service,
            nested=step.nested,
            call=step.call,
            own_conversation=step.own_conversation,
            response_id=step.response_id,
            error=step.error,
            lacks=step.lacks,
        )
        return SpanReading(
            self.trace_id,
            self.span_id,
            self.parent_id,
            self.start,
            self.end,
            said,
            record_time=self.record_time,
            tells=self.tells,
            captured=self.halves,
            beside=self.beside,
            coarse=self.coarse,
            is_joined=self.is_joined,
            apart=self.apart,
        )


def read_span(
    span: Span, scope: Sequence[str] = (), record_time: int = 0, origin: tuple[int, bytes] | None = None
) -> SpanReading:
    """A span with what it says; `scope` are the resource attributes that go before its session's id."""
    step = read_content(span)
    is_coarse = any(string_of(span.resource.get(name)) in otel.JAVASCRIPT for name in otel.LANGUAGES)
    return SpanReading(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        start=span.start,
        end=_whole(span, step.part) if is_coarse else span.end,
        step=step,
        scope="".join(f"{_escaped(span.resource.get(name))}/" for name in scope),
        record_time=record_time,
        tells=_tells(step),
        origin=origin,
        beside=span.scope in scopes.AGENTS_BESIDE,
        coarse=is_coarse,
        apart=span.scope == scopes.HAYSTACK,
    )


def _whole(span: Span, part: SpanRole) -> int:
    """Return the end of a model's call or a tool's run, cut to a whole millisecond where the start is one.

    JavaScript's SDK cuts starts and adds exact durations. With both cut, nothing ends after what it led to
    began: no model's call after the tool that it asked for, and no tool after the call that has its result. A
    model's call within a millisecond keeps its end: by time its output is told apart from its input.
    """
    end = span.end // CLOCK_ERROR * CLOCK_ERROR
    least = {SpanRole.CHAT: span.start + 1, SpanRole.TOOL: span.start}.get(part)
    is_cut = span.start > 0 and span.start % CLOCK_ERROR == 0
    return end if is_cut and least is not None and least <= end else span.end


def _tells(step: SpanContent) -> bool:
    has_messages = bool(step.input or step.output)
    is_told = step.part is SpanRole.CHAT and (step.input is None or step.output is None)
    return step.part is SpanRole.TOOL or is_told or (step.part in _SPEAKING and has_messages)


def join_records(heard: SpanReading, records: Iterable[LogRecord], *, is_cut: bool = False) -> SpanReading:
    """Return a span that lacks content with what its log records add to it, in whatever order they came.

    `is_cut` is whether some of them are known to be missing.
    """
    events, missing = events_of(records)
    step = joined(heard.step, events, missing + is_cut, int(is_cut))
    return replace(heard, step=step, tells=_tells(step), is_joined=True)


def _escaped(value: Value) -> str:
    """A resource attribute so that no value can look like two; of one that is no name its digest."""
    text = "" if value is None else str(value)
    if text and string_of(text) is None:
        return f"%x{hashlib.blake2b(text.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
    return text.replace("%", "%25").replace("/", "%2F")


@dataclass(slots=True)
class Trace:
    """The spans of one trace that have come so far.

    `spans` are by id, the earliest first of those that share one. `keyed` is the earliest span that says a
    session key. `said` is when the first span ended that says a key, for each key, and under the empty key
    when the first model's call ended that says none.
    """

    spans: dict[str, list[SpanReading]] = field(default_factory=dict[str, list[SpanReading]])
    keyed: SpanReading | None = None
    said: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, heard: SpanReading) -> None:
        """Add a span."""
        insort(self.spans.setdefault(heard.span_id, []), heard, key=_age)
        step = heard.step
        if step.session is not None and (self.keyed is None or _age(heard) < _age(self.keyed)):
            self.keyed = heard
        key = "" if step.session is None else str(step.session)
        if (key or step.part is SpanRole.CHAT) and (key in self.said or len(self.said) < KEYS_MAX):
            self.said[key] = min(heard.ended, self.said.get(key, heard.ended))

    def replace(self, heard: SpanReading, other: SpanReading) -> None:
        """Put a span in the place of one that differs from it in what it tells."""
        same = self.spans.get(heard.span_id, [])
        if heard in same:
            same.remove(heard)
            insort(same, other, key=_age)

    def all(self) -> Iterator[SpanReading]:
        """Every span that has come."""
        return (heard for same in self.spans.values() for heard in same)

    def parent(self, heard: SpanReading) -> SpanReading | None:
        """The span above; None at a root, where it has not come, and where a span calls itself its parent."""
        found = [] if heard.parent_id is None else self.spans.get(heard.parent_id, [])
        if heard.parent_id == heard.span_id:
            # Another span may have been sent under the same id, and be meant.
            found = [one for one in islice(found, SAME_ID_MAX) if one.parent_id != one.span_id]
        return found[0] if found else None

    def above(self, heard: SpanReading) -> Sequence[SpanReading]:
        """The spans above, nearest first, `ANCESTORS_MAX` at most; in a cycle none above its earliest."""
        chain, met = [heard], {id(heard): 0}
        while len(chain) <= ANCESTORS_MAX and (upper := self.parent(chain[-1])) is not None:
            if id(upper) in met:
                # The span itself may stand there a second time, without what it tells.
                ages = [_age(one) for one in chain]
                return chain[1 : ages.index(min(ages[met[id(upper)] :])) + 1]
            met[id(upper)] = len(chain)
            chain.append(upper)
        return chain[1:]

    def root(self, heard: SpanReading) -> SpanReading | None:
        """The root above a span, or itself; None where it is not known."""
        *_, last = (heard, *self.above(heard))
        return last if last.parent_id is None else None

    def speaks_for_itself(self, heard: SpanReading) -> bool:
        """Return whether a span says session and agent, so that nothing above it need be waited for.

        A conversation of its own may be that of a sub-agent, whose caller is known to have spoken before in
        another one, or without saying any: then the session is said above it.
        """
        return heard.is_named and not self.may_be_sub_agents(heard)

    def may_be_sub_agents(self, heard: SpanReading) -> bool:
        """Whether a span's conversation may be a sub-agent's: before it ended a model spoke in another."""
        if not heard.step.own_conversation or heard.parent_id is None:
            return False
        return any(ended <= heard.ended and key != heard.step.session for key, ended in self.said.items())

    def settled(self, heard: SpanReading) -> int:
        """The time at which it is said whose a span is and who did it.

        That is its own end where it says so itself, else the latest end of it and of all that is known to be
        above it.
        """
        return max(
            one.ended for one in (heard, *(() if self.speaks_for_itself(heard) else self.above(heard)))
        )

    def told_inside(self) -> Coverage:
        """Return what of its spans need not be told: others of them tell the same."""
        return coverage_of([(heard, self.above(heard)) for heard in self.all()])


def unblocked(ready: Sequence[SpanReading], waiting: Iterable[SpanReading]) -> list[SpanReading]:
    """Of the spans of a trace that might go on, those that none which waits holds up.

    A span that began before another one ended has something to tell that comes before the other's end:
    until it goes on the other waits, and so does what that one holds up.
    """
    going = list(ready)
    bound = min((one.began for one in waiting if one.tells), default=_NEVER)
    while held := [one for one in going if one.tells and one.ended > bound]:
        going = [one for one in going if not (one.tells and one.ended > bound)]
        bound = min(one.began for one in held)
    return going


def candidate_of(trace: Trace, heard: SpanReading, told_inside: Coverage) -> Candidate | InputFlaw:
    """The span with its session, by what is known of its trace; a flaw where nothing says when it was.

    `told_inside` is that of the trace.
    """
    above = trace.above(heard)
    chain = (heard, *above)
    times = _times(chain)
    if times is None:
        return InputFlaw("", "span-time", "has no time, nor has its parent, and nobody noted when it came")
    told, digest = claims_of(heard.step, *times)
    left = told_inside.halves(heard.key)
    if len(left) == 1:
        told, _ = claims_of(heard.step, *times, without=left)
    elif (run := told_inside.runs.get(heard.key)) is not None:
        told, _ = claims_of(_with_run(heard.step, *run), *times)
    return Candidate(
        session_id=heard.scope + _session_key(trace, chain),
        part=heard.step.part,
        start=times[0],
        end=times[1],
        tellings=told,
        trace_id=heard.trace_id,
        span_id=heard.span_id,
        digest=digest,
        failed=heard.step.error is not None,
        within=tuple(covers(heard, above)),
        covered=len(left) > 1,
        agent=_nearest(one.step.agent for one in chain),
        model=_nearest(one.step.model for one in chain),
        service=_nearest(one.step.service for one in chain),
        nested=_is_nested(chain, told_inside),
        attributes=heard.step.attributes,
    )


def omitted_claims(trace: Trace, heard: SpanReading, told_inside: Coverage) -> tuple[Claim, ...]:
    """Return the readings of a span that its candidate lacks: other spans of its trace are read instead.

    Where that is so of both halves of a conversation the candidate has them, and is `covered`.
    """
    left, times = told_inside.halves(heard.key), _times((heard, *trace.above(heard)))
    if len(left) != 1 or times is None:
        return ()
    inputs = len(heard.step.input or ())
    return tuple(one for one in claims_of(heard.step, *times)[0] if half_of(one, inputs) in left)


def _with_run(step: SpanContent, call: ToolCall, error: str | None) -> SpanContent:
    """Return a tool's run with what others know of it; another span under its ids may run another tool."""
    if step.call is None or step.call.tool != call.tool:
        return step
    return replace(step, call=completed_call(step.call, call), error=step.error or error)


def cut_links(trace: Trace) -> int:
    """How many parent links are not followed: of spans that call themselves their parent, and of cycles."""
    selves = sum(h.parent_id == h.span_id and trace.parent(h) is None for h in trace.all())
    cycles = {_age(h) for h in trace.all() if trace.parent(h) is not None and not trace.above(h)}
    return selves + len(cycles)


def orphans(trace: Trace) -> int:
    """Return how many spans name a parent that never came."""
    return sum(h.parent_id is not None and h.parent_id not in trace.spans for h in trace.all())


def _age(heard: SpanReading) -> tuple[int | str, ...]:
    """What is earlier: by start (one without any is last), then by span id, then by what others inherit."""
    step, call = heard.step, heard.step.call or _NO_CALL
    said = (step.session, step.agent, step.model, step.service, call.call_id, call.tool, call.args)
    said += (step.response_id, str(step.own_conversation), step.error, *heard.halves)
    return (
        *(heard.start or heard.end or _NEVER, heard.span_id, heard.end, heard.parent_id or "", step.part),
        *("" if one is None else f"={one}" for one in (*said, step.nested)),
    )


def _session_key(trace: Trace, chain: Sequence[SpanReading]) -> str:
    """Its own key, else its nearest ancestor's, else that of its trace's earliest span, else the trace id.

    A conversation that a run below a tool has of its own is a sub-agent's: its session is the caller's.
    """
    said: SpanReading | None = None
    for one in chain:
        if one.step.part is SpanRole.TOOL and one is not chain[0] and said is not None:
            said = None if trace.may_be_sub_agents(said) else said
        if said is None and one.step.session is not None:
            said = one
    keyed = said or trace.keyed
    own = None if keyed is None else keyed.step.session
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
    tools = (upper.ended for upper in above if upper.step.part is SpanRole.TOOL)
    return min((told for told in tools if told < end <= told + CLOCK_ERROR), default=end)


def _is_nested(chain: Sequence[SpanReading], told_inside: Coverage) -> bool:
    """Whether a span belongs to a sub-agent: to an agent below another one, or to one that works for a tool.

    What a span says of itself and of those below it goes before.
    """
    agents: set[str] = set()
    runs = 0
    works = False
    for one in chain:
        if one.step.nested is not None:
            return one.step.nested
        if (one.step.part is SpanRole.TOOL and works) or one.key in told_inside.helpers:
            return True
        works = works or one.step.part in _SPEAKING
        runs += one.apart and one.step.part is SpanRole.AGENT
        if runs > 1:
            return True
        if one.step.part is SpanRole.AGENT and one.step.agent is not None:
            agents.add(one.step.agent)
            if len(agents) > 1:
                return True
    return False
