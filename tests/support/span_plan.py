"""The plan of a conversation's spans: when each call ran, and the faults of instrumentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from tracline.examples.desk.script import Script, ScriptCall, ScriptLine, turn_bounds
from tracline.schemas.span_content import Role

from .scripts import START_NS


class Dialect(StrEnum):
    """The conventions by which an agent is instrumented."""

    GENAI = "genai"
    OPENINFERENCE = "openinference"
    OPENLLMETRY = "openllmetry"
    VERCEL = "vercel"


class ClockFault(StrEnum):
    """A fault of a span's clock."""

    NO_START = "no start"
    NO_END = "no end"
    BACKWARDS = "backwards"


class Keys(StrEnum):
    """The spans that name the session."""

    ROOTS = "roots"
    EVERYWHERE = "everywhere"
    FIRST_CALLS = "first calls"
    """The first model call of each trace, and no other."""


@dataclass(frozen=True, slots=True)
class Manner:
    """The manner in which an agent is instrumented; the default is a well-instrumented agent.

    `structured` writes GenAI messages as values instead of JSON text. `captured` spans have messages,
    arguments and results; `inputs_captured` ones also have the input of models. `one_trace` puts all turns
    into one trace with one root; otherwise each turn is a trace. `keys` are the spans that name the session
    (everywhere: also the agent), `session_key` is the attribute if it is not the dialect's. `tool_spans`
    states whether tools have spans, `call_ids` whether calls have ids; without ids the expected events hold
    only for `tidy` sessions. `end_mark` marks the end of the session on the last root. `agent_messages`
    adds the turn's messages to the agent's spans. `skip_turns` omits the first turns, which are then only
    in the history of the first model call. `window` is the minimum number of input messages of a model, all
    new ones included; 0 is all. (Two calls with equal input look like a retry: the expected events hold
    only for conversations that do not repeat themselves.)

    The rest are rates of faults of model calls and tool runs: `wrapped` by a second instrumentation (models
    in the dialect `wrapper`) and `clock_faults`; for model calls only, `retried` after a failure, `doubled`
    by a parallel call with the same input. `seed` determines the faults, and all times and ids.
    """

    dialect: Dialect = Dialect.GENAI
    structured: bool = False
    captured: bool = True
    inputs_captured: bool = True
    one_trace: bool = False
    keys: Keys = Keys.ROOTS
    session_key: str | None = None
    tool_spans: bool = True
    call_ids: bool = True
    end_mark: bool = False
    agent_messages: bool = False
    skip_turns: int = 0
    window: int = 0
    wrapped: float = 0.0
    wrapper: Dialect = Dialect.OPENINFERENCE
    retried: float = 0.0
    doubled: float = 0.0
    clock_faults: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a model call: its time, and its error type if it failed."""

    start: int
    end: int
    error: str | None = None
    fault: ClockFault | None = None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call with the input `inputs` and the output `output` (None: it failed).

    `outer` is the time of a second instrumentation's span that encloses all attempts.
    """

    inputs: tuple[ScriptLine, ...]
    output: ScriptLine | None
    attempts: tuple[Attempt, ...]
    outer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool's run; `inner` is the turn of a sub-agent that does its work, `outer` as in a model call."""

    call: ScriptCall
    answer: ScriptLine
    start: int
    end: int
    inner: AgentTurn | None = None
    fault: ClockFault | None = None
    outer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """An agent's turn, from one message of the customer to the next; `lines` are its messages."""

    agent: str
    model: str
    start: int
    end: int
    acts: tuple[ModelCall | ToolRun, ...]
    lines: tuple[ScriptLine, ...]


@dataclass(slots=True)
class _Clock:
    """A simulated clock that uses every instant once, with a random generator per fault."""

    manner: Manner
    session_id: str
    now: int
    dice: dict[str, Random] = field(default_factory=dict[str, Random])

    def tick(self, most_us: int = 200) -> int:
        """Advance the time a little, and return it."""
        self.now += self.roll("times").randint(1_000, most_us * 1_000)
        return self.now

    def reach(self, time: int) -> int:
        """Advance to that time, or a little if it has passed, and return the time."""
        self.now = max(self.now + 1_000, time)
        return self.now

    def roll(self, what: str) -> Random:
        """Return the random generator for one purpose."""
        if what not in self.dice:
            self.dice[what] = Random(f"{what} {self.manner.seed} {self.session_id}")
        return self.dice[what]

    def happens(self, what: str, rate: float) -> bool:
        """Return whether a fault of that rate occurs now."""
        return self.roll(what).random() < rate


def plan(session: Script, manner: Manner) -> tuple[AgentTurn, ...]:
    """Return the session's turns in time order, without those that the manner skips.

    The same session and manner give the same plan. Raises ValueError if all turns would be skipped.
    """
    first = next((line.time for line in session.lines if line.time), START_NS)
    clock = _Clock(manner, session.session_id, first - 1_000_000)
    made: list[AgentTurn] = []
    bounds = turn_bounds(session.lines)
    for start, end in bounds:
        made.append(_turn(session.lines, start, end, session.agent, session.model, clock))
        clock.tick()
    if manner.skip_turns >= len(made):
        raise ValueError(f"the session has {len(made)} turns; {manner.skip_turns} cannot be skipped")
    return tuple(made[manner.skip_turns :])


def _turn(
    lines: Sequence[ScriptLine], first: int, last: int, agent: str, model: str, clock: _Clock
) -> AgentTurn:
    """Return the turn of `lines[first:last]`; the input of its model calls includes all earlier lines."""
    acts: list[ModelCall | ToolRun] = []
    if lines[first].role is not Role.ASSISTANT:
        clock.reach(lines[first].time)
    start = clock.tick()
    place = first
    while place < last:
        line = lines[place]
        if line.role is Role.ASSISTANT:
            acts.append(_model_call(_inputs(lines, place, clock.manner), line, clock))
        elif line.role is Role.TOOL:
            results = _results(lines, place, last)
            acts += _tool_runs(results, clock)
            place += len(results) - 1
        else:
            clock.reach(line.time)
        place += 1
    if lines[last - 1].role is Role.USER:
        acts.append(_model_call(_inputs(lines, last, clock.manner), None, clock))
    return AgentTurn(agent, model, start, clock.tick(), tuple(acts), tuple(lines[first:last]))


def _inputs(lines: Sequence[ScriptLine], end: int, manner: Manner) -> tuple[ScriptLine, ...]:
    """Return a model's input from the lines before: no result without its call, and all new lines."""
    first = max(0, end - manner.window) if manner.window else 0
    answers = [place for place in range(end) if lines[place].role is Role.ASSISTANT]
    first = min(first, answers[-1] if answers else 0)
    while lines[first : first + 1] and lines[first].role is Role.TOOL:
        first -= 1
    return tuple(lines[first:end])


def _results(lines: Sequence[ScriptLine], place: int, last: int) -> Sequence[ScriptLine]:
    end = place
    while end < last and lines[end].role is Role.TOOL:
        end += 1
    return lines[place:end]


def _model_call(inputs: tuple[ScriptLine, ...], output: ScriptLine | None, clock: _Clock) -> ModelCall:
    """Plan a model call with its faults; without `output` it fails."""
    manner = clock.manner
    wrapped = clock.happens("wrapped", manner.wrapped)
    outer_start = clock.tick()
    attempts: list[Attempt] = []
    if clock.happens("retried", manner.retried):
        attempts.append(Attempt(clock.tick(), clock.tick(), "rate_limited"))
    start = clock.tick()
    if output is None:
        attempts.append(Attempt(start, clock.tick(), "timeout"))
    elif clock.happens("doubled", manner.doubled):
        beside = clock.tick()
        attempts += [Attempt(start, clock.reach(output.time)), Attempt(beside, clock.tick())]
    else:
        attempts.append(Attempt(start, clock.reach(output.time), fault=_fault(clock)))
    return ModelCall(inputs, output, tuple(attempts), (outer_start, clock.tick()) if wrapped else None)


def _fault(clock: _Clock) -> ClockFault | None:
    happens = clock.happens("clock faults", clock.manner.clock_faults)
    which = clock.roll("kinds of faults").choice(list(ClockFault))
    return which if happens else None


def _tool_runs(answers: Sequence[ScriptLine], clock: _Clock) -> Iterator[ToolRun]:
    """Plan the tools' runs, in sequence or (without a sub-agent) in parallel."""
    runs = [line for line in answers if not line.again and line.answers is not None]
    side_by_side = clock.roll("times").random() < 0.5 and not any(line.inner for line in runs)
    outers = [clock.tick() if clock.happens("wrapped", clock.manner.wrapped) else 0 for _ in runs]
    starts = [clock.tick() for _ in runs] if side_by_side else []
    for place, line in enumerate(runs):
        start = starts[place] if side_by_side else clock.tick()
        inner = None
        if line.inner:
            inner = _turn(line.inner, 0, len(line.inner), "policy-desk", "birch-2", clock)
        assert line.answers is not None
        end = clock.reach(line.time)
        outer = (outers[place], clock.tick()) if outers[place] else None
        yield ToolRun(line.answers, line, start, end, inner, _fault(clock), outer)


def shown(start: int, end: int, fault: ClockFault | None) -> tuple[int, int]:
    """Return the times on a span, given its true times and the fault of its clock."""
    if fault is ClockFault.NO_START:
        return 0, end
    if fault is ClockFault.NO_END:
        return start, 0
    return (start, start - 1) if fault is ClockFault.BACKWARDS else (start, end)


def believed(start: int, end: int, fault: ClockFault | None) -> tuple[int, int]:
    """Return the plausible times of a span: if one time is wrong, both are the end, else the start."""
    start, end = shown(start, end, fault)
    if end == 0:
        return start, start
    return (end, end) if start == 0 or end < start else (start, end)
