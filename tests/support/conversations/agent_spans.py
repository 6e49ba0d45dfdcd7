"""The spans that an instrumented agent sends for a conversation, and the events expected from them.

    from .span_plan import Dialect, Manner
    from tracline.examples.desk.script import support_session
    from .agent_spans import expected, spans

    manner = Manner(dialect=Dialect.OPENINFERENCE, retried=0.2)
    sent = spans(session, manner)
    truth = expected(session, manner)

`spans` and `expected` both follow the plan in `plan`, and neither the other: the expected events come from
the conversation. No function reads a clock; the same session and manner give the same spans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import msgspec
from tracline.examples.desk.script import Script, ScriptCall, ScriptLine
from tracline.schemas.event import Content, Event, Kind, canonical_text, content_of, event_id
from tracline.schemas.span import Span, SpanEvent, Value
from tracline.schemas.span_content import Role

from .span_dialects import WORDS, Attributes, Conversing, DialectWriter, Running
from .span_plan import AgentTurn, Attempt, Dialect, Keys, Manner, ModelCall, ToolRun, believed, plan, shown

# The spans


def spans(session: Script, manner: Manner | None = None) -> list[Span]:
    """Return the session's spans in the order of their ends, like an exporter.

    Each turn is an agent's span above its model calls and tool runs; a model call has the whole conversation
    so far as input. Raises ValueError if the manner skips every turn.
    """
    manner = manner or Manner()
    turns = plan(session, manner)
    writer = _SpanWriter(session, manner)
    if manner.one_trace:
        whole = replace(
            turns[0],
            end=turns[-1].end,
            acts=tuple(act for turn in turns for act in turn.acts),
            lines=tuple(line for turn in turns for line in turn.lines),
        )
        writer.root(whole, is_last=True)
    else:
        for turn in turns:
            writer.root(turn, is_last=turn is turns[-1])
    return [span for _, span in sorted(writer.made, key=lambda made: made[0])]


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a span: its trace, its parent (None for a root), and its agent."""

    trace: str
    parent: str | None
    agent: str


@dataclass(slots=True)
class _SpanWriter:
    """Writes spans: `made`, each with its true end; `keyed` are the traces with a first model call."""

    session: Script
    manner: Manner
    made: list[tuple[int, Span]] = field(default_factory=list[tuple[int, Span]])
    keyed: set[str] = field(default_factory=set[str])
    dice: Random = field(init=False)

    def __post_init__(self) -> None:
        began = self.session.lines[0].time
        self.dice = Random(f"ids {self.manner.seed} {self.session.session_id} {began}")

    def root(self, turn: AgentTurn, *, is_last: bool) -> None:
        """Write an agent's turn as a trace; the last one may have an end mark."""
        extra: Attributes = {"tracline.session.end": True} if is_last and self.manner.end_mark else {}
        if self.manner.keys is Keys.ROOTS:
            extra |= self._key()
        self._turn(turn, _Place(f"{self.dice.getrandbits(128):032x}", None, turn.agent), extra)

    def _turn(self, turn: AgentTurn, place: _Place, extra: Attributes) -> None:
        words = WORDS[self.manner.dialect]
        calls = [act for act in turn.acts if isinstance(act, ModelCall)]
        inputs, output = (calls[-1].inputs, calls[-1].output) if calls else (turn.lines, None)
        error = calls[-1].attempts[-1].error if calls else None
        content = Conversing(turn.agent, turn.model, _instructions(turn.agent, 0), inputs, output, error)
        name, attributes = words.agent(content, self.manner)
        here = self._add((name, attributes | extra), Attempt(turn.start, turn.end, error), place, words)
        for number, act in enumerate(turn.acts):
            if isinstance(act, ModelCall):
                self._model_call(act, turn.model, number, here)
            else:
                self._tool_run(act, here)

    def _model_call(self, act: ModelCall, model: str, number: int, place: _Place) -> None:
        if act.outer is not None:
            outer = Attempt(*act.outer, error=act.attempts[-1].error)
            place = self._attempt(act, outer, model, number, place, self.manner.wrapper)
        for nth, attempt in enumerate(act.attempts, start=1):
            self._attempt(act, attempt, model, number + 100 * nth, place, self.manner.dialect)

    def _attempt(
        self, act: ModelCall, attempt: Attempt, model: str, number: int, place: _Place, dialect: Dialect
    ) -> _Place:
        output = act.output if attempt.error is None else None
        instructions = _instructions(place.agent, number)
        content = Conversing(place.agent, model, instructions, act.inputs, output, attempt.error)
        name, attributes = WORDS[dialect].chat(content, self.manner)
        if self.manner.keys is Keys.FIRST_CALLS and place.trace not in self.keyed:
            attributes |= self._key()
            self.keyed.add(place.trace)
        return self._add((name, attributes), attempt, place, WORDS[dialect])

    def _tool_run(self, act: ToolRun, place: _Place) -> None:
        words, error = WORDS[self.manner.dialect], act.answer.error
        if self.manner.tool_spans:
            run = Running(act.call, act.answer.text, error)
            if act.outer is not None:
                place = self._add(words.tool(run, self.manner), Attempt(*act.outer, error), place, words)
            ran = Attempt(act.start, act.end, error, act.fault)
            place = self._add(words.tool(run, self.manner), ran, place, words)
        if act.inner is not None:
            self._turn(act.inner, replace(place, agent=act.inner.agent), {})

    def _add(
        self, named: tuple[str, Attributes], ran: Attempt, place: _Place, words: DialectWriter
    ) -> _Place:
        """Add a span, and return the place below it."""
        name, attributes = named
        start, end = shown(ran.start, ran.end, ran.fault)
        if self.manner.keys is Keys.EVERYWHERE:
            attributes |= {**self._key(), words.agent_key: place.agent}
        span = Span(
            trace_id=place.trace,
            span_id=f"{self.dice.getrandbits(64):016x}",
            parent_id=place.parent,
            name=name,
            start=start,
            end=end,
            attributes=attributes,
            events=() if "error.type" in attributes else _exception(ran),
            failed=ran.error is not None,
            resource={"service.name": self.session.service},
            scope=words.scope,
        )
        self.made.append((ran.end, span))
        return replace(place, parent=span.span_id)

    def _key(self) -> Attributes:
        name = self.manner.session_key or WORDS[self.manner.dialect].session_key
        return {name: self.session.session_id}


def _instructions(agent: str, number: int) -> str:
    """Return the model's instructions, which differ at each attempt as if they had the time of day."""
    return f"You are {agent}, a careful assistant of a shop. Conversation step {number}."


def _exception(ran: Attempt) -> tuple[SpanEvent, ...]:
    """Return the span event with which most dialects report a failure."""
    attributes: dict[str, Value] = {"exception.type": ran.error, "exception.message": "it did not work"}
    return () if ran.error is None else (SpanEvent("exception", ran.end, attributes),)


# The expected events


def expected(session: Script, manner: Manner | None = None) -> tuple[Event, ...]:
    """Return the events that the spans must become, in judged order, with an `end` row for an end mark.

    They have no trace, span and attributes. They do not include what no span states: skipped turns that are
    in no history, and results in no tool's span and no later model call.
    """
    manner = manner or Manner()
    turns = plan(session, manner)
    words = WORDS[manner.dialect]
    blank = Event(session.session_id, 0, 0, 0, Kind.UNKNOWN, service=session.service)
    made: list[Event] = []
    for turn in turns:
        who = msgspec.structs.replace(
            blank, agent=turn.agent, model=turn.model if words.agent_model else None
        )
        made += _turn_events(turn, who, manner, is_first=turn is turns[0])
    made.sort(key=lambda event: event.time)
    if manner.end_mark:
        end = msgspec.structs.replace(blank, kind=Kind.END, time=turns[-1].end, attributes={"end": "mark"})
        made.append(msgspec.structs.replace(end, service=None))
    return tuple(_numbered(made))


def _turn_events(turn: AgentTurn, who: Event, manner: Manner, *, is_first: bool = False) -> Iterator[Event]:
    """Yield the events of a turn's spans; `who` has the fields of events without a model."""
    ids = _run_ids(turn, manner)
    for number, act in enumerate(turn.acts):
        if isinstance(act, ModelCall):
            yield from _call_events(
                act, msgspec.structs.replace(who, model=turn.model), manner, is_first=is_first
            )
            is_first = False
            continue
        if manner.tool_spans:
            yield from _run_events(act, msgspec.structs.replace(who, call_id=ids[number]), manner)
        if act.inner is not None:
            model = act.inner.model if WORDS[manner.dialect].agent_model else who.model
            inner = msgspec.structs.replace(who, agent=act.inner.agent, model=model, nested=True)
            yield from _turn_events(act.inner, inner, manner)


def _call_events(act: ModelCall, who: Event, manner: Manner, *, is_first: bool) -> Iterator[Event]:
    """Yield the events of a model call: its new input, and its output when it first succeeds."""
    if manner.captured and manner.inputs_captured:
        yield from _input_events(act, who, manner, is_first=is_first)
    else:
        is_marked = manner.captured and manner.dialect is Dialect.OPENINFERENCE
        content = Content.REDACTED if is_marked else Content.ABSENT
        yield from (_unknown(who, _believed(attempt)[0], content) for attempt in act.attempts)
    ends = [_believed(attempt)[1] for attempt in act.attempts if attempt.error is None]
    if not manner.captured:
        yield from (_unknown(who, end, Content.ABSENT) for end in ends)
    elif act.output is not None:
        yield from _line_events(act.output, msgspec.structs.replace(who, time=min(ends)), manner)


def _input_events(act: ModelCall, who: Event, manner: Manner, *, is_first: bool) -> Iterator[Event]:
    """Yield the input since the last answer at the first attempt, except results that have a tool's span.

    The input of the session's first call is the whole history.
    """
    inputs = msgspec.structs.replace(who, time=min(_believed(attempt)[0] for attempt in act.attempts))
    answers = [place for place, line in enumerate(act.inputs) if line.role is Role.ASSISTANT]
    new = answers[-1] + 1 if answers else 0
    for place, line in enumerate(act.inputs):
        has_span = line.role is Role.TOOL and not line.again and manner.tool_spans
        if is_first or (place >= new and not has_span):
            yield from _line_events(line, msgspec.structs.replace(inputs, history=place < new), manner)


def _unknown(who: Event, time: int, content: Content) -> Event:
    """Return an unknown event: a message whose content was not captured."""
    return msgspec.structs.replace(who, time=time, content=content)


def _line_events(line: ScriptLine, who: Event, manner: Manner) -> Iterator[Event]:
    """Yield the events of one message in their order; only a tool's span has the error of a result."""
    captured = msgspec.structs.replace(who, content=Content.CAPTURED)
    if line.answers is not None:
        call = line.answers
        args = None if line.again else call.args
        yield msgspec.structs.replace(
            captured,
            kind=Kind.TOOL_RESULT,
            tool=call.tool,
            call_id=_written_id(call.call_id, manner),
            args=args,
            result=line.text,
        )
        return
    if line.text is not None:
        yield msgspec.structs.replace(captured, kind=Kind(line.role), text=line.text)
    for call in line.calls:
        call_id = _written_id(call.call_id, manner)
        yield msgspec.structs.replace(
            captured, kind=Kind.TOOL_CALL, tool=call.tool, call_id=call_id, args=call.args
        )


def _run_events(act: ToolRun, who: Event, manner: Manner) -> Iterator[Event]:
    """Yield the events that only a tool's span has: the result, and the call if messages are not captured.

    `who` has the id of the call.
    """
    start, end = believed(act.start, act.end, act.fault)
    run = msgspec.structs.replace(who, tool=act.call.tool)
    if manner.captured:
        base = msgspec.structs.replace(
            run, content=Content.CAPTURED, args=act.call.args, result=act.answer.text
        )
    else:
        base = msgspec.structs.replace(run, content=Content.ABSENT)
        yield msgspec.structs.replace(base, kind=Kind.TOOL_CALL, time=start)
    yield msgspec.structs.replace(base, kind=Kind.TOOL_RESULT, time=end, error=act.answer.error)


def _run_ids(turn: AgentTurn, manner: Manner) -> dict[int, str | None]:
    """Return the call id of each run's result, by the number of the act.

    A span without an id gets that of the model's call; equal calls of one message run in their order.
    """
    runs = [(number, act) for number, act in enumerate(turn.acts) if isinstance(act, ToolRun)]
    if WORDS[manner.dialect].run_ids:
        return {number: _written_id(act.call.call_id, manner) for number, act in runs}
    if not manner.captured:
        return {number: None for number, _ in runs}
    ids: dict[int, str | None] = {}
    runs.sort(key=lambda item: believed(item[1].start, item[1].end, item[1].fault))
    for number, act in runs:
        asked = [
            item.output
            for item in turn.acts[:number]
            if isinstance(item, ModelCall) and item.output is not None
        ]
        calls = [item for item in (asked[-1].calls if asked else ()) if _is_alike(item, act.call)]
        free = [item.call_id for item in calls if item.call_id not in ids.values()]
        ids[number] = _written_id(free[0] if free else act.call.call_id, manner)
    return ids


def _is_alike(first: ScriptCall, second: ScriptCall) -> bool:
    return first.tool == second.tool and canonical_text(first.args) == canonical_text(second.args)


def _written_id(call_id: str | None, manner: Manner) -> str | None:
    return call_id if manner.call_ids else None


def _believed(attempt: Attempt) -> tuple[int, int]:
    return believed(attempt.start, attempt.end, attempt.fault)


def _numbered(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events with occurrence, place and id."""
    equals: Counter[str] = Counter()
    for seq, event in enumerate(events, start=1):
        content = content_of(event)
        key = repr((event.kind, content))
        name = event_id(event.session_id, events[0].time, event.kind, content, equals[key])
        yield msgspec.structs.replace(event, seq=seq, occurrence=events[0].time, event_id=name)
        equals[key] += 1
