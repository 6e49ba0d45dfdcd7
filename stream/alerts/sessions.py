"""Counting of sessions by tick: those to which a rule applies, and those that violate it.

A session counts once for each rule, in the tick of event time in which the rule first applied to it, under
the agent named then. A tick is *settled* when all its sessions have violated the rule, become unjudged or
closed, or `settle_ticks` after its end. A violation after that counts as overdue and in no rate, so the
violations of a tick are always of its own sessions. A session that becomes unjudged without having violated
leaves the tick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from ...schemas.time import NS, parse_time
from ..messages.status import SessionStatus, StatusChange
from .alert import UNKNOWN, value

SESSIONS_MAX = 1_000_000
"""Sessions in the state; beyond them the one with the oldest status is dropped."""

FORGET_S = 7 * 86_400
"""Seconds of event time without a status after which a session that does not close is dropped."""

AGENTS_MAX = 200
"""Agents of a rule with counts of their own; the sessions of all others count as `OTHER_AGENTS`."""
OTHER_AGENTS = "(other agents)"
NO_AGENT = ""
"""The agent of sessions without an agent's name, or without a visible one."""


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


class SessionCounter:
    """Counts sessions by rule, agent and tick. It is deterministic in the order of statuses and watermarks.

    `cohorts`, `sessions` and the watermark are its state; `changed_keys` and `changed_sessions` name the
    parts that changed since they were last emptied. `overdue` and `dropped` count sessions. `settle_ticks`
    returns how long the ticks of a rule wait for undecided sessions.
    """

    def __init__(self, tick_s: int, settle_ticks: Callable[[str, str], int]) -> None:
        assert tick_s > 0
        self.tick_ns = tick_s * NS
        self.watermark: int | None = None
        self.cohorts: dict[RateKey, dict[int, Cohort]] = {}
        self.sessions: dict[tuple[str, int], CountedSession] = {}
        self.overdue: Counter[tuple[str, str]] = Counter()
        self.dropped = 0
        self.changed_keys: set[RateKey] = set()
        self.changed_sessions: set[tuple[str, int]] = set()
        self._settle = settle_ticks
        self._closing: list[tuple[str, int]] = []
        self._agents: dict[tuple[str, str], set[str]] = {}

    def add(self, status: StatusChange) -> None:
        """Count a status. One older than the watermark counts in the tick that is open now."""
        occurrence = (status.session_id, status.occurrence)
        session = self.sessions.pop(occurrence, None) or CountedSession()
        self.sessions[occurrence] = session
        self._make_room()
        session.last_tick = max(session.last_tick, self._tick(status.time))
        self.changed_sessions.add(occurrence)
        if status.pack is None or status.rule is None:
            self._close(occurrence, session)
            return
        rule = (status.pack, status.rule)
        counted = session.parts.get(rule)
        if counted is None:
            agent = self._agent(rule, agent_label(status.agent))
            counted = session.parts[rule] = SessionRule(agent, self._tick(status.time))
            self._enter(RateKey(*rule, agent), counted, session)
        match status.status:
            case SessionStatus.VIOLATED if not counted.violated:
                self._violate(RateKey(*rule, counted.agent), counted, session)
            case SessionStatus.UNJUDGED if not counted.decided:
                self._leave(RateKey(*rule, counted.agent), counted, session)
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

    def restore(
        self,
        sessions: Mapping[tuple[str, int], CountedSession],
        keys: Iterable[RateKey],
        watermark: int | None,
    ) -> None:
        """Continue from these sessions, agents and watermark, after `cohorts` was set."""
        self.watermark = watermark
        self.sessions = dict(sorted(sessions.items(), key=lambda item: (item[1].last_tick, item[0])))
        self._closing = [occurrence for occurrence, session in self.sessions.items() if session.closed]
        for key in keys:
            self._agents.setdefault(key[:2], set()).add(key.agent)

    def final(self, key: RateKey) -> int:
        """Return the number of the first tick that may still be settled."""
        if self.watermark is None:
            return -(1 << 62)
        return self.watermark // self.tick_ns - self._settle(key.pack, key.rule)

    def _settled(self, key: RateKey) -> Iterator[TickCounts]:
        assert self.watermark is not None
        open_now, final = self.watermark // self.tick_ns, self.final(key)
        cohorts = self.cohorts[key]
        for number in sorted(cohorts):
            cohort = cohorts[number]
            if number >= open_now or (cohort.undecided and number >= final):
                break
            del cohorts[number]
            self.changed_keys.add(key)
            yield TickCounts(key, number, cohort.violating, cohort.applicable)
        if not cohorts:
            del self.cohorts[key]

    def _tick(self, time: int) -> int:
        return max(time, self.watermark or time) // self.tick_ns

    def _agent(self, rule: tuple[str, str], agent: str) -> str:
        known = self._agents.setdefault(rule, set())
        if agent not in known and len(known) >= AGENTS_MAX:
            return OTHER_AGENTS
        known.add(agent)
        return agent

    def _enter(self, key: RateKey, counted: SessionRule, session: CountedSession) -> None:
        """Count a session to which the rule begins to apply."""
        cohort = self.cohorts.setdefault(key, {}).setdefault(counted.tick, Cohort())
        cohort.applicable += 1
        cohort.undecided += not session.closed
        self.changed_keys.add(key)

    def _violate(self, key: RateKey, counted: SessionRule, session: CountedSession) -> None:
        cohort = self._open(key, counted)
        if cohort is None:
            self.overdue[key.pack, key.rule] += 1
        else:
            cohort.violating += 1
            cohort.applicable += counted.unjudged
            cohort.undecided -= not (counted.decided or session.closed)
        counted.violated = True

    def _leave(self, key: RateKey, counted: SessionRule, session: CountedSession) -> None:
        """Take a session that becomes unjudged out of its tick."""
        cohort = self._open(key, counted)
        if cohort is not None:
            cohort.applicable -= 1
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
        self._closing.append(occurrence)

    def _open(self, key: RateKey, counted: SessionRule) -> Cohort | None:
        """Return the cohort of a session for a rule, None once it is settled."""
        cohort = self.cohorts.get(key, {}).get(counted.tick)
        if cohort is not None:
            self.changed_keys.add(key)
        return cohort

    def _make_room(self) -> None:
        """Enforce the limit also while the watermark does not move: a partition may lag for long."""
        if len(self.sessions) > SESSIONS_MAX:
            self._drop_closed()
        while len(self.sessions) > SESSIONS_MAX:
            self._drop(next(iter(self.sessions)))
            self.dropped += 1

    def _drop_closed(self) -> None:
        """Drop closed sessions."""
        for occurrence in self._closing:
            self._drop(occurrence)
        self._closing = []

    def _drop_old(self) -> None:
        """Drop closed sessions, and those without a status for too long."""
        self._drop_closed()
        assert self.watermark is not None
        oldest = (self.watermark - FORGET_S * NS) // self.tick_ns
        while self.sessions:
            occurrence, session = next(iter(self.sessions.items()))
            if session.last_tick >= oldest:
                break
            self._drop(occurrence)
            self.dropped += 1

    def _drop(self, occurrence: tuple[str, int]) -> None:
        if self.sessions.pop(occurrence, None) is not None:
            self.changed_sessions.add(occurrence)


class _StatusJson(msgspec.Struct, forbid_unknown_fields=True):
    """A status in a message, with the types of its fields."""

    status: SessionStatus
    session_id: str
    occurrence: str
    pack: str | None
    rule: str | None
    rule_digest: str | None
    severity: str | None
    agent: str | None
    time: str


def agent_label(agent: str | None) -> str:
    """Return the agent's name in alerts; all sessions without one share `NO_AGENT`."""
    name = value(agent)
    return NO_AGENT if name == UNKNOWN else name


def read_statuses(message: Mapping[str, Any]) -> Iterator[StatusChange]:
    """Yield the status changes in a message of `tracline.verdicts`, as `decode_verdicts` returns it.

    Raises KeyError, TypeError or ValueError where a field is missing or invalid.
    """
    for status in msgspec.convert(message["session_status"], list[_StatusJson]):
        occurrence, time = parse_time(status.occurrence), parse_time(status.time)
        if occurrence is None or time is None:
            raise ValueError("a status without a time")
        named = status.pack, status.rule, status.rule_digest, status.severity
        if (None in named[:2]) is not (status.status is SessionStatus.CLOSED):
            raise ValueError("a status of no rule, or a close of one")
        yield StatusChange(status.status, status.session_id, occurrence, *named, status.agent, time)
