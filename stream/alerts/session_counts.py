"""Counting of sessions by tick: those to which a rule applies, and those that violate it.

A session counts once for each rule, in the tick of event time in which the rule first applied to it, under
the agent named then. A tick is *settled* when all its sessions have violated the rule, become unjudged or
closed, or `settle_ticks` after its end. A violation after that counts as overdue and in no rate, so the
violations of a tick are always of its own sessions. A session that becomes unjudged without having violated
stays in its tick: the counts are of certain violations, among all sessions that the rule may apply to.
An outage of content capture counts like a rule (`counted_statuses.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from ...schemas.records.session_status import SessionStatus, StatusChange
from ...schemas.time import NS
from .alert import UNKNOWN, value
from .counted_statuses import counted_statuses
from .overlay import Overlay, OverlayWrites

SESSIONS_MAX = 1_000_000
"""Sessions in the state; beyond them the one with the oldest status is dropped."""

FORGET_S = 7 * 86_400
"""Seconds of event time without a status after which a session that does not close is dropped."""

AGENTS_MAX = 200
"""Agents of a rule with counts of their own; the sessions of all others count as `OTHER_AGENTS`."""
OTHER_AGENTS = "(other agents)"
NO_AGENT = ""
"""The agent of sessions without an agent's name, or without a visible one."""


Occurrence: TypeAlias = tuple[str, int]
"""A session id, and the time at which the occurrence began."""


class RateKey(NamedTuple):
    """The key of a rate: a rule and an agent."""

    pack: str
    rule: str
    agent: str


class TickCounts(NamedTuple):
    """A settled tick of a rule and agent, numbered since the epoch."""

    key: RateKey
    number: int
    violating: int
    applicable: int


@dataclass(slots=True)
class Cohort:
    """The counts of a tick that is not settled; `undecided` sessions may still violate."""

    applicable: int = 0
    violating: int = 0
    undecided: int = 0


@dataclass(slots=True)
class SessionRule:
    """The status of a rule in a session, and the tick in which the session counts."""

    agent: str
    tick: int
    violated: bool = False
    unjudged: bool = False

    @property
    def decided(self) -> bool:
        """Return whether the session is decided for the rule before it closes."""
        return self.violated or self.unjudged


@dataclass(slots=True)
class CountedSession:
    """An occurrence: its rules by pack and id, the tick of its last status, and whether it closed."""

    parts: dict[tuple[str, str], SessionRule] = field(default_factory=dict[tuple[str, str], SessionRule])
    last_tick: int = 0
    closed: bool = False

    def copy(self) -> CountedSession:
        """Return an occurrence that can change while this one stays."""
        parts = {rule: replace(counted) for rule, counted in self.parts.items()}
        return CountedSession(parts, self.last_tick, self.closed)


@dataclass(frozen=True, slots=True)
class CounterWrites:
    """The changes of a step.

    `closed` are the sessions that closed since the step dropped closed ones, or else since it began;
    `has_dropped` is whether it has dropped them.
    """

    watermark: int | None
    cohorts: OverlayWrites[RateKey, dict[int, Cohort]]
    sessions: OverlayWrites[Occurrence, CountedSession]
    agents: OverlayWrites[tuple[str, str], frozenset[str]]
    closed: list[Occurrence]
    has_dropped: bool


@dataclass(slots=True)
class CounterState:
    """The state of a counter between two steps.

    `cohorts` are the ticks that are not settled, `sessions` the occurrences in the order of their last
    status, `closed` those of them that the next watermark drops, and `agents` the agents that count by
    themselves, by rule. Only `apply` changes them.
    """

    watermark: int | None = None
    cohorts: dict[RateKey, dict[int, Cohort]] = field(default_factory=dict[RateKey, dict[int, Cohort]])
    sessions: dict[Occurrence, CountedSession] = field(default_factory=dict[Occurrence, CountedSession])
    agents: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]]
    )
    closed: list[Occurrence] = field(default_factory=list[Occurrence])

    def apply(self, writes: CounterWrites) -> None:
        """Become what a step has made of this state; takes as long as there are changes."""
        self.watermark = writes.watermark
        writes.cohorts.apply(self.cohorts)
        writes.sessions.apply(self.sessions)
        writes.agents.apply(self.agents)
        if writes.has_dropped:
            self.closed = writes.closed
        else:
            self.closed += writes.closed


class SessionCounter:
    """A step that counts sessions by rule, agent and tick, over a state that stays as it is.

    It is deterministic in the order of statuses and watermarks. `overdue` and `dropped` count the sessions of
    the step. `settle_ticks` returns how long the ticks of a rule wait for undecided sessions.
    """

    def __init__(
        self, tick_s: int, settle_ticks: Callable[[str, str], int], state: CounterState | None = None
    ) -> None:
        assert tick_s > 0
        before = state or CounterState()
        self.tick_ns = tick_s * NS
        self.watermark = before.watermark
        self.cohorts = Overlay(before.cohorts)
        self.sessions = Overlay(before.sessions)
        self.overdue: Counter[tuple[str, str]] = Counter()
        self.dropped = 0
        self._settle = settle_ticks
        self._agents = Overlay(before.agents)
        self._closed_before: Sequence[Occurrence] = before.closed
        self._closed: list[Occurrence] = []
        self._has_dropped = False

    def writes(self) -> CounterWrites:
        """Return the changes; the step must not go on afterwards."""
        return CounterWrites(
            self.watermark,
            self.cohorts.writes(),
            self.sessions.writes(),
            self._agents.writes(),
            self._closed,
            self._has_dropped,
        )

    def add(self, status: StatusChange) -> None:
        """Count a status. One older than the watermark counts in the tick that is open now."""
        occurrence = (status.session_id, status.occurrence)
        session = self._touched(occurrence)
        self._make_room()
        session.last_tick = max(session.last_tick, self._tick(status.time))
        if status.pack is None or status.rule is None:
            self._close(occurrence, session)
            return
        for rule, kind in counted_statuses(status):
            self._count(session, rule, kind, status)

    def _count(
        self, session: CountedSession, rule: tuple[str, str], kind: SessionStatus, status: StatusChange
    ) -> None:
        """Count a status of a rule, or of `CAPTURE`, in a session."""
        counted = session.parts.get(rule)
        if counted is None:
            agent = self._agent(rule, agent_label(status.agent))
            counted = session.parts[rule] = SessionRule(agent, self._tick(status.time))
            self._enter(RateKey(*rule, agent), counted, session)
        match kind:
            case SessionStatus.VIOLATED if not counted.violated:
                self._violate(RateKey(*rule, counted.agent), counted, session)
            case SessionStatus.UNJUDGED if not counted.decided:
                self._decide(RateKey(*rule, counted.agent), counted, session)
            case _:
                pass

    def advance(self, watermark: int) -> list[TickCounts]:
        """Return the ticks that the watermark settles, by rule and agent, in order."""
        if self.watermark is not None and watermark <= self.watermark:
            return []
        self.watermark = watermark
        settled = [tick for key in sorted(self.cohorts) for tick in self._settled(key)]
        self._drop_old()
        return settled

    def final(self, key: RateKey) -> int:
        """Return the number of the first tick that may still be settled."""
        if self.watermark is None:
            return -(1 << 62)
        return self.watermark // self.tick_ns - self._settle(key.pack, key.rule)

    def _settled(self, key: RateKey) -> Iterator[TickCounts]:
        assert self.watermark is not None
        open_now, final = self.watermark // self.tick_ns, self.final(key)
        cohorts = self.cohorts.get(key) or {}
        for number, cohort in sorted(cohorts.items()):
            if number >= open_now or (cohort.undecided and number >= final):
                break
            del self._cohorts(key)[number]
            yield TickCounts(key, number, cohort.violating, cohort.applicable)
        if not self.cohorts.get(key):
            self.cohorts.delete(key)

    def _cohorts(self, key: RateKey) -> dict[int, Cohort]:
        """Return the cohorts of a key, to be changed."""
        cohorts = self.cohorts.copied(key)
        if cohorts is None:
            before = self.cohorts.get(key) or {}
            cohorts = {number: replace(cohort) for number, cohort in before.items()}
            self.cohorts.put(key, cohorts)
        return cohorts

    def _touched(self, occurrence: Occurrence) -> CountedSession:
        """Return a session, to be changed, which becomes the last in order."""
        session = self.sessions.copied(occurrence)
        if session is None:
            before = self.sessions.get(occurrence)
            session = CountedSession() if before is None else before.copy()
        self.sessions.put(occurrence, session)
        return session

    def _tick(self, time: int) -> int:
        return max(time, self.watermark or time) // self.tick_ns

    def _agent(self, rule: tuple[str, str], agent: str) -> str:
        known = self._agents.get(rule) or frozenset()
        if agent in known:
            return agent
        if len(known) >= AGENTS_MAX:
            return OTHER_AGENTS
        self._agents.put(rule, known | {agent})
        return agent

    def _enter(self, key: RateKey, counted: SessionRule, session: CountedSession) -> None:
        """Count a session to which the rule begins to apply."""
        cohort = self._cohorts(key).setdefault(counted.tick, Cohort())
        cohort.applicable += 1
        cohort.undecided += not session.closed

    def _violate(self, key: RateKey, counted: SessionRule, session: CountedSession) -> None:
        cohort = self._open(key, counted)
        if cohort is None:
            self.overdue[key.pack, key.rule] += 1
        else:
            cohort.violating += 1
            # An earlier release took unjudged sessions out of their tick.
            cohort.applicable = max(cohort.applicable, cohort.violating)
            cohort.undecided -= not (counted.decided or session.closed)
        counted.violated = True

    def _decide(self, key: RateKey, counted: SessionRule, session: CountedSession) -> None:
        """Wait no longer for a session that becomes unjudged."""
        cohort = self._open(key, counted)
        if cohort is not None:
            cohort.undecided -= not session.closed
        counted.unjudged = True

    def _close(self, occurrence: tuple[str, int], session: CountedSession) -> None:
        if session.closed:
            return
        for (pack, rule), counted in session.parts.items():
            cohort = self._open(RateKey(pack, rule, counted.agent), counted)
            if cohort is not None and not counted.decided:
                cohort.undecided -= 1
        session.closed = True
        self._closed.append(occurrence)

    def _open(self, key: RateKey, counted: SessionRule) -> Cohort | None:
        """Return the cohort of a session for a rule, to be changed; None once it is settled."""
        if counted.tick not in (self.cohorts.get(key) or {}):
            return None
        return self._cohorts(key)[counted.tick]

    def _make_room(self) -> None:
        """Enforce the limit also while the watermark does not move: a partition may lag for long."""
        if len(self.sessions) > SESSIONS_MAX:
            self._drop_closed()
        while len(self.sessions) > SESSIONS_MAX and (first := self.sessions.first()) is not None:
            self.sessions.delete(first)
            self.dropped += 1

    def _drop_closed(self) -> None:
        """Drop closed sessions."""
        for occurrence in (*self._closed_before, *self._closed):
            self.sessions.delete(occurrence)
        self._closed_before, self._closed, self._has_dropped = (), [], True

    def _drop_old(self) -> None:
        """Drop closed sessions, and those without a status for too long."""
        self._drop_closed()
        assert self.watermark is not None
        oldest = (self.watermark - FORGET_S * NS) // self.tick_ns
        while (first := self.sessions.first()) is not None:
            session = self.sessions.get(first)
            if session is None or session.last_tick >= oldest:
                break
            self.sessions.delete(first)
            self.dropped += 1


def agent_label(agent: str | None) -> str:
    """Return the agent's name in alerts; all sessions without one share `NO_AGENT`."""
    name = value(agent)
    return NO_AGENT if name == UNKNOWN else name
