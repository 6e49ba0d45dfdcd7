"""When an instrumented agent did what a conversation says, and what went wrong in the telling of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from ...schemas.span_content import Role
from .sessions import START_NS, Script, ScriptCall, ScriptLine


class Dialect(StrEnum):
    """The conventions by which an agent is instrumented."""

    GENAI = "genai"
    OPENINFERENCE = "openinference"
    OPENLLMETRY = "openllmetry"
    VERCEL = "vercel"


class ClockFault(StrEnum):
    """What a span's clock did wrong."""

    NO_START = "no start"
    NO_END = "no end"
    BACKWARDS = "backwards"


class Keys(StrEnum):
    """Which spans say whose session it is."""

    ROOTS = "roots"
    EVERYWHERE = "everywhere"
    FIRST_CALLS = "first calls"
    """The first model call of each trace, and no other."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a conversation is told as spans. Without settings: as a well-instrumented agent would.

    `structured` gives the messages of GenAI as values, not as JSON text. `captured` is whether messages,
    arguments and results are told, `inputs_captured` whether what models hear is, too. `one_trace` puts all
    turns into one trace and under one root; else each turn is a trace. `keys` are the spans that say the
    session (everywhere: and the agent), `session_key` its attribute where it is not the dialect's.
    `tool_spans` is whether tools have spans; `call_ids` whether calls have ids, without which the truth is
    that of `tidy` sessions only. `end_mark` has the last root say that the session is over. `agent_tells`
    has the agent's spans tell the turn's messages, too. `skip_turns` begins late: the first turns are told
    only as the history of the first model call. `window` is how many messages a model hears at least, all
    that is new among them; 0 is all there are. (Two calls that hear the same through it look like a retry:
    the truth is that of conversations which do not repeat themselves.)

    The rest are shares of model calls and tools' runs to which something happens: `wrapped` by a second
    instrumentation (models in the dialect `wrapper`), `clock_faults`; of model calls alone `retried` after a
    failure, `doubled` by a second call beside them that is told the same. `seed` decides which, and all
    times and ids.
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
    agent_tells: bool = False
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
    """One try at a model call: when it ran, and the error type where it failed."""

    start: int
    end: int
    error: str | None = None
    fault: ClockFault | None = None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The model hears all `heard` and says `said` (None: it failed).

    `outer` is when the span of a second instrumentation around all attempts ran.
    """

    heard: tuple[ScriptLine, ...]
    said: ScriptLine | None
    attempts: tuple[Attempt, ...]
    outer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool at work on a call; `inner` is what a sub-agent did for it, `outer` as in a model call."""

    call: ScriptCall
    answer: ScriptLine
    start: int
    end: int
    inner: AgentTurn | None = None
    fault: ClockFault | None = None
    outer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """What an agent does from one word of the customer to the next; `lines` are what was said."""

    agent: str
    model: str
    start: int
    end: int
    acts: tuple[ModelCall | ToolRun, ...]
    lines: tuple[ScriptLine, ...]


@dataclass(slots=True)
class _Clock:
    """Time as it passes: every instant is used once. Each trouble has dice of its own."""

    manner: Manner
    session_id: str
    now: int
    dice: dict[str, Random] = field(default_factory=dict[str, Random])

    def tick(self, most_us: int = 200) -> int:
        """A moment later."""
        self.now += self.roll("times").randint(1_000, most_us * 1_000)
        return self.now

    def reach(self, time: int) -> int:
        """That time, where it is not past; else a moment later."""
        self.now = max(self.now + 1_000, time)
        return self.now

    def roll(self, what: str) -> Random:
        """The dice for one purpose."""
        if what not in self.dice:
            self.dice[what] = Random(f"{what} {self.manner.seed} {self.session_id}")
        return self.dice[what]

    def happens(self, what: str, rate: float) -> bool:
        """Return whether something of that rate happens now."""
        return self.roll(what).random() < rate


def plan(session: Script, manner: Manner) -> tuple[AgentTurn, ...]:
    """The session's turns in the order of time, those that the manner skips left out.

    The same session and manner give the same plan. Raises ValueError where all turns would be skipped.
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


def turn_bounds(lines: Sequence[ScriptLine]) -> Iterator[tuple[int, int]]:
    """Return where turns begin and end: each with the first word of the customer after others."""
    starts = [
        i
        for i, line in enumerate(lines)
        if i == 0 or (line.role is Role.USER and lines[i - 1].role is not Role.USER)
    ]
    return zip(starts, [*starts[1:], len(lines)], strict=True)


def _turn(
    lines: Sequence[ScriptLine], first: int, last: int, agent: str, model: str, clock: _Clock
) -> AgentTurn:
    """The turn of `lines[first:last]`; its model calls hear all lines before as well."""
    acts: list[ModelCall | ToolRun] = []
    if lines[first].role is not Role.ASSISTANT:
        clock.reach(lines[first].time)
    start = clock.tick()
    place = first
    while place < last:
        line = lines[place]
        if line.role is Role.ASSISTANT:
            acts.append(_model_call(_heard(lines, place, clock.manner), line, clock))
        elif line.role is Role.TOOL:
            results = _results(lines, place, last)
            acts += _tool_runs(results, clock)
            place += len(results) - 1
        else:
            clock.reach(line.time)
        place += 1
    if lines[last - 1].role is Role.USER:
        acts.append(_model_call(_heard(lines, last, clock.manner), None, clock))
    return AgentTurn(agent, model, start, clock.tick(), tuple(acts), tuple(lines[first:last]))


def _heard(lines: Sequence[ScriptLine], end: int, manner: Manner) -> tuple[ScriptLine, ...]:
    """Return what a model hears of the lines before: no result without its call, nothing new left out."""
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


def _model_call(heard: tuple[ScriptLine, ...], said: ScriptLine | None, clock: _Clock) -> ModelCall:
    """One call of a model, with what happens to it; without `said` it fails."""
    manner = clock.manner
    wrapped = clock.happens("wrapped", manner.wrapped)
    outer_start = clock.tick()
    attempts: list[Attempt] = []
    if clock.happens("retried", manner.retried):
        attempts.append(Attempt(clock.tick(), clock.tick(), "rate_limited"))
    start = clock.tick()
    if said is None:
        attempts.append(Attempt(start, clock.tick(), "timeout"))
    elif clock.happens("doubled", manner.doubled):
        beside = clock.tick()
        attempts += [Attempt(start, clock.reach(said.time)), Attempt(beside, clock.tick())]
    else:
        attempts.append(Attempt(start, clock.reach(said.time), fault=_fault(clock)))
    return ModelCall(heard, said, tuple(attempts), (outer_start, clock.tick()) if wrapped else None)


def _fault(clock: _Clock) -> ClockFault | None:
    happens = clock.happens("clock faults", clock.manner.clock_faults)
    which = clock.roll("kinds of faults").choice(list(ClockFault))
    return which if happens else None


def _tool_runs(answers: Sequence[ScriptLine], clock: _Clock) -> Iterator[ToolRun]:
    """The tools' runs, one after the other or (where no sub-agent is at work) side by side."""
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
    """The times that a span shows, given when it ran and what its clock did wrong."""
    if fault is ClockFault.NO_START:
        return 0, end
    if fault is ClockFault.NO_END:
        return start, 0
    return (start, start - 1) if fault is ClockFault.BACKWARDS else (start, end)


def believed(start: int, end: int, fault: ClockFault | None) -> tuple[int, int]:
    """The times that can be believed of what a span shows: where one is wrong, the end, else the start."""
    start, end = shown(start, end, fault)
    if end == 0:
        return start, start
    return (end, end) if start == 0 or end < start else (start, end)
