"""The risks of sessions by a learned chain: now, over their events, and why."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...predict.counting.labelled_sessions import read_sessions
from ...predict.counting.sequences import SymbolNumbers
from ...predict.explaining.context_explanations import ContextExplanations
from ...predict.explaining.explanation import RiskExplanation
from ...predict.explaining.next_symbols import Actor, NextSymbol
from ...predict.folder.learned_chain import LearnedChain
from ...predict.folder.riskiest import ShownContext, riskiest
from ...predict.following.followed_chain import FollowedChain
from ...predict.following.follower import RuleFollower
from ...predict.following.live.followed_session import FollowedSession
from ...predict.following.live.session_follower import CurrentRisk, SessionFollower
from ...predict.following.risk_courses import DrawnCourse, RiskCourse, risk_courses
from ...rules.engine.judge import JUDGED_COLUMNS
from ...rules.engine.sessions import Clock
from ...schemas.event import Event
from ...schemas.frames.events import event_frame
from .overview import RiskCounts
from .queries import at_risk_counts, drifted
from .rates import Window

COURSES_SHOWN_MAX = 3
"""Risks of a session that its page draws over the events: those with warnings first, then the greatest."""
RISKS_SHOWN_MAX = 8
"""Risks of an open session that its page lists: those nearest to their thresholds."""
PATHS_SHOWN = 3
"""Violating continuations of a risk that its page shows."""
CONTEXTS_SHOWN_MAX = 5
"""Contexts of a rule that its page shows, the riskiest ones."""
EXPLANATIONS_CACHED_MAX = 256

WIDTH, HEIGHT, STEP_MAX = 760, 48, 24
"""The size of the drawing of a risk, and the largest width of an event in it."""


@dataclass(frozen=True, slots=True)
class ServedChain:
    """A learned chain, and the rules that it is followed for."""

    learned: LearnedChain
    followed: FollowedChain

    @property
    def rules(self) -> list[tuple[str, str]]:
        """Return the packs and ids of the followed rules."""
        return [(risks.pack, risks.rule) for risks in self.followed.risks.values()]


@dataclass(frozen=True, slots=True)
class DrawnRisk:
    """A risk over the events of a session, drawn."""

    course: RiskCourse
    drawn: DrawnCourse


@dataclass(frozen=True, slots=True)
class RiskNow:
    """The risk of a rule after the last event of an open session, with its explanation if there is one."""

    current: CurrentRisk
    explanation: RiskExplanation | None

    @property
    def deciding(self) -> list[tuple[Actor, str, NextSymbol]]:
        """Return by side the next event that raises the risk most, and that which lowers it most."""
        if self.explanation is None:
            return []
        change = self.explanation.greatest_change
        words = ("raises", True), ("lowers", False)
        found = [(actor, word, change(actor, is_rise=is_rise)) for actor in Actor for word, is_rise in words]
        return [(actor, word, symbol) for actor, word, symbol in found if symbol is not None]


class SessionRisks:
    """The risks of sessions by one chain. Any thread may ask; one at a time computes."""

    def __init__(self, chain: ServedChain) -> None:
        self.chain = chain
        self._lock = threading.Lock()
        self._follower = SessionFollower(chain.followed)
        self._explanations = ContextExplanations(chain.learned)
        self._explained = lru_cache(maxsize=EXPLANATIONS_CACHED_MAX)(self._explanations.explain)

    def now(self, state: FollowedSession | None, paths: int, most: int | None = None) -> list[RiskNow]:
        """Return the risks in a session's state, those nearest to their thresholds first, explained.

        There is none where the session is closed, or is not followed by this chain.
        """
        with self._lock:
            if state is None or not self._follower.continues(state):
                return []
            found = [risk for risk in self._follower.risks(state) if risk.context is not None]
            found.sort(key=lambda risk: (-_nearness(risk), risk.pack, risk.rule, risk.value or ""))
            return [RiskNow(risk, self._explain(risk, paths)) for risk in found[:most]]

    def courses(self, events: Sequence[Event]) -> list[RiskCourse]:
        """Return the risks over the first events of an occurrence, those that warn and the greatest first."""
        if not events or events[0].seq != 1:
            return []
        with self._lock:
            found = list(self._courses(events))
        return sorted(found, key=lambda each: (not each.is_warned, -each.greatest, each.pack, each.rule))

    def drawn(self, events: Sequence[Event]) -> list[DrawnRisk]:
        """Return the courses that a session's page draws."""
        step = min(STEP_MAX, WIDTH / max(len(events), 1))
        places = {event.seq: number * step for number, event in enumerate(events)}
        courses = [course for course in self.courses(events) if course.greatest > 0]
        return [
            DrawnRisk(course, course.drawn(places, step, HEIGHT - 1, HEIGHT - 4))
            for course in courses[:COURSES_SHOWN_MAX]
        ]

    def riskiest(self, pack: str, rule: str) -> list[ShownContext]:
        """Return the riskiest contexts of a followed rule that sessions came to."""
        within = next(
            risks.within
            for risks in self.chain.followed.risks.values()
            if (risks.pack, risks.rule) == (pack, rule)
        )
        return riskiest([self.chain.learned.rule(pack, rule)], within, CONTEXTS_SHOWN_MAX)

    def drifted(self, db: sqlite3.Connection) -> frozenset[tuple[str, str]]:
        """Return the packs and ids of the rules that have drifted from the chain."""
        return drifted(db, self.chain.followed.digest)

    def counts(self, db: sqlite3.Connection) -> RiskCounts:
        """Return the followed rules, with a function that counts a window's sessions at risk."""

        def count(window: Window) -> dict[tuple[str, str, str], int]:
            return at_risk_counts(db, window.since, window.until)

        return RiskCounts(frozenset(self.chain.rules), count)

    def threshold(self, pack: str, rule: str) -> tuple[int | None, float] | None:
        """Return the horizon and the threshold of a rule, None where it is not followed."""
        for risks in self.chain.followed.risks.values():
            if (risks.pack, risks.rule) == (pack, rule):
                return risks.within, risks.threshold
        return None

    def _explain(self, risk: CurrentRisk, paths: int) -> RiskExplanation | None:
        if risk.context is None or not paths:
            return None
        context = risk.context.symbol, risk.context.state, risk.context.memory
        return self._explained((risk.pack, risk.rule), context, risk.within, paths)

    def _courses(self, events: Sequence[Event]) -> Iterator[RiskCourse]:
        watched = self.chain.followed.watched
        labelled = watched.compiled.labeler.label_few(event_frame(events), keep=JUDGED_COLUMNS)
        clock = Clock(last=events[-1].time, idle=1 << 62)
        sessions = read_sessions(watched.compiled, labelled, clock)
        symbols = {rule.pack: SymbolNumbers() for rule in watched.rules}
        for number, risks in self.chain.followed.risks.items():
            follower = RuleFollower(watched, number, risks, symbols[watched.rules[number].pack])
            for found, places in follower.sequences(sessions):
                for _, course in risk_courses(follower, found, places, sessions, labelled, {0}):
                    yield course


def _nearness(risk: CurrentRisk) -> float:
    """Return a risk as a multiple of its threshold."""
    return 0.0 if risk.context is None else risk.context.risk / risk.threshold


def risks_as_json(risks: Iterable[RiskNow], drifting: Container[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the risks of a session as JSON values; `drifting` are the rules that drifted from it."""
    return [
        _as_json(each.current, each.explanation)
        | {"drift": (each.current.pack, each.current.rule) in drifting}
        for each in risks
    ]


def _as_json(risk: CurrentRisk, explanation: RiskExplanation | None) -> dict[str, Any]:
    context = risk.context
    assert context is not None, "a session's risks have contexts"
    found: dict[str, Any] = {
        "pack": risk.pack,
        "rule": risk.rule,
        "slice": risk.value,
        "within": risk.within,
        "risk": context.risk,
        "low": context.low,
        "high": context.high,
        "sessions": context.sessions,
        "basis": context.basis,
        "symbol": context.symbol,
        "threshold": risk.threshold,
        "above": risk.is_above,
        "paths": None,
        "covered": None,
    }
    if explanation is None:
        return found
    paths = [
        {
            "probability": path.probability,
            "steps": [{"symbol": step.symbol, "residual": step.residual} for step in path.steps],
        }
        for path in explanation.paths
    ]
    return found | {"paths": paths, "covered": min(explanation.covered, 1.0)}
