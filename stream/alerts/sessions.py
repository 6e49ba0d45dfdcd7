"""From what rules say of sessions to counts by tick: to how many a rule applies, how many violate it.

A session counts once for each rule, in the tick of event time in which the rule first applied to it, under
the agent that was named then. Whether it violates is looked at when the tick is *settled*: when all its
sessions have violated, become unjudged or closed, or `settle_ticks` after its end. What violates only later
is counted as overdue and in no rate, so a tick's violations are always some of its own sessions, however
traffic comes and goes. A session that becomes unjudged without having violated is taken out again.
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
"""Sessions that are remembered; beyond them the one longest unheard of is forgotten."""

FORGET_S = 7 * 86_400
"""A session that never closes is forgotten after so long without a word, in event time."""

AGENTS_MAX = 200
"""Agents of a rule that are counted by themselves; the sessions of further ones count as `OTHER_AGENTS`."""
OTHER_AGENTS = "(other agents)"
NO_AGENT = ""
"""The agent of sessions that name none, or none that can be shown."""


class RateKey(NamedTuple):
    """What has a rate of its own."""

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
    """The sessions of a tick that is not settled; `undecided` may still violate."""

    applicable: int = 0
    violating: int = 0
    undecided: int = 0


@dataclass(slots=True)
class SessionRule:
    """What a rule has said of a session, and in which tick it counts."""

    agent: str
    tick: int
    violated: bool = False
    unjudged: bool = False

    @property
    def decided(self) -> bool:
        """Return whether nothing more is to come of it while the session is open."""
        return self.violated or self.unjudged


@dataclass(slots=True)
class CountedSession:
    """What is known of an occurrence: by pack and rule, the tick of the last word, and that it closed."""

    parts: dict[tuple[str, str], SessionRule] = field(default_factory=dict[tuple[str, str], SessionRule])
    last_tick: int = 0
    closed: bool = False


class SessionCounter:
    """Counts sessions by rule, agent and tick. The same statuses and watermarks in turn give the same ticks.

    `cohorts`, `sessions` and the watermark are all that it goes by; `changed_keys` and `changed_sessions`
    name those that changed since they were last emptied. `overdue` and `forgotten` count sessions.
    `settle_ticks` says of a rule how long its ticks wait for undecided sessions.
    """

    def __init__(self, tick_s: int, settle_ticks: Callable[[str, str], int]) -> None:
        assert tick_s > 0
        self.tick_ns = tick_s * NS
        self.watermark: int | None = None
        self.cohorts: dict[RateKey, dict[int, Cohort]] = {}
        self.sessions: dict[tuple[str, int], CountedSession] = {}
        self.overdue: Counter[tuple[str, str]] = Counter()
        self.forgotten = 0
        self.changed_keys: set[RateKey] = set()
        self.changed_sessions: set[tuple[str, int]] = set()
        self._settle = settle_ticks
        self._closing: list[tuple[str, int]] = []
        self._agents: dict[tuple[str, str], set[str]] = {}

    def add(self, status: StatusChange) -> None:
        """Take in a status. What is older than the watermark counts in the tick that is open now."""
        place = (status.session_id, status.occurrence)
        session = self.sessions.pop(place, None) or CountedSession()
        self.sessions[place] = session
        self._make_room()
        session.last_tick = max(session.last_tick, self._tick(status.time))
        self.changed_sessions.add(place)
        if status.pack is None or status.rule is None:
            self._close(place, session)
            return
        rule = (status.pack, status.rule)
        part = session.parts.get(rule)
        if part is None:
            agent = self._agent(rule, agent_label(status.agent))
            part = session.parts[rule] = SessionRule(agent, self._tick(status.time))
            self._enter(RateKey(*rule, agent), part, session)
        match status.status:
            case SessionStatus.VIOLATED if not part.violated:
                self._violate(RateKey(*rule, part.agent), part, session)
            case SessionStatus.UNJUDGED if not part.decided:
                self._leave(RateKey(*rule, part.agent), part, session)
            case _:
                pass

    def advance(self, watermark: int) -> list[TickCounts]:
        """The ticks that are settled now that no earlier status is to come, by rule and agent, in turn."""
        if self.watermark is not None and watermark <= self.watermark:
            return []
        self.watermark = watermark
        settled = [tick for key in sorted(self.cohorts) for tick in self._settled(key)]
        self._forget()
        return settled

    def restore(
        self,
        sessions: Mapping[tuple[str, int], CountedSession],
        keys: Iterable[RateKey],
        watermark: int | None,
    ) -> None:
        """Go on from these sessions, agents and watermark, after `cohorts` was set."""
        self.watermark = watermark
        self.sessions = dict(sorted(sessions.items(), key=lambda item: (item[1].last_tick, item[0])))
        self._closing = [place for place, session in self.sessions.items() if session.closed]
        for key in keys:
            self._agents.setdefault(key[:2], set()).add(key.agent)

    def final(self, key: RateKey) -> int:
        """The number of the first tick that may still be settled: nothing more is to come of those before."""
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

    def _enter(self, key: RateKey, part: SessionRule, session: CountedSession) -> None:
        """A session to which the rule has come to apply."""
        cohort = self.cohorts.setdefault(key, {}).setdefault(part.tick, Cohort())
        cohort.applicable += 1
        cohort.undecided += not session.closed
        self.changed_keys.add(key)

    def _violate(self, key: RateKey, part: SessionRule, session: CountedSession) -> None:
        cohort = self._open(key, part)
        if cohort is None:
            self.overdue[key.pack, key.rule] += 1
        else:
            cohort.violating += 1
            cohort.applicable += part.unjudged
            cohort.undecided -= not (part.decided or session.closed)
        part.violated = True

    def _leave(self, key: RateKey, part: SessionRule, session: CountedSession) -> None:
        """A session that cannot be judged: it leaves the rate."""
        cohort = self._open(key, part)
        if cohort is not None:
            cohort.applicable -= 1
            cohort.undecided -= not session.closed
        part.unjudged = True

    def _close(self, place: tuple[str, int], session: CountedSession) -> None:
        if session.closed:
            return
        for (pack, rule), part in session.parts.items():
            cohort = self._open(RateKey(pack, rule, part.agent), part)
            if cohort is not None and not part.decided:
                cohort.undecided -= 1
        session.closed = True
        self._closing.append(place)

    def _open(self, key: RateKey, part: SessionRule) -> Cohort | None:
        """The cohort of a session for a rule, None once it is settled."""
        cohort = self.cohorts.get(key, {}).get(part.tick)
        if cohort is not None:
            self.changed_keys.add(key)
        return cohort

    def _make_room(self) -> None:
        """Keep within the limit while time stands still, too: a partition may lag for long."""
        if len(self.sessions) > SESSIONS_MAX:
            self._let_go()
        while len(self.sessions) > SESSIONS_MAX:
            self._drop(next(iter(self.sessions)))
            self.forgotten += 1

    def _let_go(self) -> None:
        """Let go of closed sessions."""
        for place in self._closing:
            self._drop(place)
        self._closing = []

    def _forget(self) -> None:
        """Let go of closed sessions, and of those that have not been heard of for too long."""
        self._let_go()
        assert self.watermark is not None
        oldest = (self.watermark - FORGET_S * NS) // self.tick_ns
        while self.sessions:
            place, session = next(iter(self.sessions.items()))
            if session.last_tick >= oldest:
                break
            self._drop(place)
            self.forgotten += 1

    def _drop(self, place: tuple[str, int]) -> None:
        if self.sessions.pop(place, None) is not None:
            self.changed_sessions.add(place)


class _StatusJson(msgspec.Struct, forbid_unknown_fields=True):
    """A status in a message, with the types that it must have."""

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
    """An agent as alerts call it, so that no two have one name there; those that say none are one."""
    name = value(agent)
    return NO_AGENT if name == UNKNOWN else name


def read_statuses(message: Mapping[str, Any]) -> Iterator[StatusChange]:
    """Yield what a message of `tracline.verdicts`, as `decode_verdicts` has it, says of sessions.

    Raises KeyError, TypeError or ValueError where it lacks something, or something is not what it must be.
    """
    for told in msgspec.convert(message["session_status"], list[_StatusJson]):
        occurrence, time = parse_time(told.occurrence), parse_time(told.time)
        if occurrence is None or time is None:
            raise ValueError("a status without a time")
        named = told.pack, told.rule, told.rule_digest, told.severity
        if (None in named[:2]) is not (told.status is SessionStatus.CLOSED):
            raise ValueError("a status of no rule, or a close of one")
        yield StatusChange(told.status, told.session_id, occurrence, *named, told.agent, time)
