"""A rule set that judges the events of open sessions: one call of the kernel for many batches.

A batch is the events of one message. The results are those of judging the batches one after another: each
verdict and each change of a status belongs to the batch with the event that decides it, in the same order.
Judging continues from what the state of each session carries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np
import orjson
import polars as pl

from ...predict.drift.bet_sums import TICK_NS, BetGroups, BetSum, bet_sums
from ...predict.following.crossing_record import CrossedEvent, crossing_record
from ...predict.following.followed_chain import FollowedChain
from ...predict.following.live.followed_session import FollowedSession
from ...predict.following.live.session_follower import (
    CurrentRisk,
    EventCrossing,
    FollowedBatch,
    SessionFollower,
)
from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, compile_rule_set, label_columns
from ...rules.incremental.carried import Carried
from ...rules.incremental.carry_layout import CarryLayout
from ...rules.incremental.continue_judging import BatchOutcome, FollowedRules, continue_judging
from ...rules.labels.joint.joint_labels import JointLabels
from ...rules.labels.labelled_rows import LabelledRows, ListedEvents, label_type
from ...rules.model.digest import rule_set_digest
from ...rules.model.rule import RuleSet, stopping
from ...schemas.event import Event
from ...schemas.frames.events import EVENT_SCHEMA
from ...schemas.instrumentations.missing import Missing
from ...schemas.records.risk_crossing import RiskCrossing
from ...schemas.records.session_status import SessionStatus, StatusChange
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.time import rfc3339
from ..error import StreamError
from ..messages.session_state import OTHER_RELEASE, Columns, JudgingState


@dataclass(slots=True)
class BatchVerdicts:
    """The verdict records of one batch, the changes of its sessions' status, and its crossings of risk.

    `unseen` counts the events with a symbol that the chain lacks, and `bets` are those against the chain.
    """

    records: list[VerdictRecord] = field(default_factory=list[VerdictRecord])
    statuses: list[StatusChange] = field(default_factory=list[StatusChange])
    crossings: list[RiskCrossing] = field(default_factory=list[RiskCrossing])
    unseen: int = 0
    bets: list[BetSum] = field(default_factory=list[BetSum])


@dataclass(frozen=True, slots=True)
class JudgedBatches:
    """The verdicts of each batch, and the states of the sessions after all.

    `followed` are the sessions and occurrences whose risks a chain follows.
    """

    verdicts: list[BatchVerdicts]
    states: dict[str, JudgingState]
    followed: frozenset[tuple[str, int]] = frozenset()


class RuleSetJudge:
    """A compiled rule set that judges open sessions; it holds nothing of them.

    `digest` is the rule set's. `key` also differs between rule sets with the same rules whose labels have
    another layout, or which another chain follows: a session's state names by it the rules that its numbers
    stand for. `chain` follows the risks of the sessions that begin; `lacking` is the digest of a chain that
    should, and is not at hand.
    """

    def __init__(
        self,
        compiled: CompiledRules,
        *,
        satisfied: bool = False,
        chain: FollowedChain | None = None,
        lacking: str | None = None,
    ) -> None:
        self.compiled, self.chain, self.lacking = compiled, chain, lacking
        self._satisfied = satisfied
        # A chain without a threshold for any of the rules follows none.
        self._follower = SessionFollower(chain) if chain is not None and chain.risks else None
        # The plan of labels is made here, and not with the first events.
        first = compiled.labeler
        joint = None if self._follower is None else JointLabels(first, self._follower.labeler)
        self._labels = first.few if joint is None else joint
        self._columns = (*JUDGED_COLUMNS, *label_columns(compiled))
        self.digest = rule_set_digest(RuleSet(compiled.rules, {}))
        self._rules_key = f"{self.digest}.{_layout(compiled, self._columns)}"
        self.key = chained_key(self._rules_key, lacking if chain is None else chain.digest)
        self.rules = frozenset((rule.pack, rule.id) for rule in compiled.rules)

    @cached_property
    def _carry_layout(self) -> CarryLayout:
        return CarryLayout(self.compiled)

    def judge(self, states: Mapping[str, JudgingState], batches: Sequence[Sequence[Event]]) -> JudgedBatches:
        """Judge batches of new events; return the verdicts of each, and the sessions' states after all.

        `states` has every session of the events, as before the first batch. Raises StreamError where a state
        has numbers of another release's tables.
        """
        events = [event for batch in batches for event in batch]
        if not events:
            return JudgedBatches([BatchVerdicts() for _ in batches], {})
        last = {event.session_id: event.occurrence for event in events}
        labelled, watched = self._labelled(events)
        before = {session_id: states[session_id] for session_id in last}
        carried = self._carried(before)
        numbers = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
        followed = self._follow(watched, before)
        names = frozenset[tuple[str, str]]() if self._follower is None else frozenset(self._follower.names)
        done = continue_judging(
            self._carry_layout,
            carried,
            labelled,
            numbers,
            satisfied=self._satisfied,
            followed=FollowedRules(followed.occurrences, names),
        )
        outcomes = [*done.outcomes, *(BatchOutcome() for _ in batches[len(done.outcomes) :])]
        verdicts = [self._verdicts(batch, each) for batch, each in zip(batches, outcomes, strict=True)]
        batch_of: list[int] = numbers.tolist()
        for crossing in followed.crossings:
            self._add_crossing(verdicts[batch_of[crossing.row]], events[crossing.row], crossing)
        if self._follower is not None:
            for number, bets in self._bets(self._follower, followed, events, batch_of).items():
                verdicts[number].bets += bets
        for row in followed.unseen:
            verdicts[batch_of[row]].unseen += 1
        after = {
            name: JudgingState(
                self.key, occurrence, done.carried.get(name), followed=followed.states.get(name)
            )
            for name, occurrence in last.items()
        }
        return JudgedBatches(verdicts, after, followed.occurrences)

    def _labelled(self, events: Sequence[Event]) -> tuple[LabelledRows, LabelledRows]:
        """Return the events with the labels of the rules, and with those of the chain's rules."""
        columns = ListedEvents(events)
        if isinstance(self._labels, JointLabels):
            return self._labels.label(columns)
        labelled = LabelledRows(columns, self._labels.label(columns))
        return labelled, labelled

    @property
    def names_chain(self) -> bool:
        """Return whether a chain is to follow the sessions, at hand or not."""
        return self.chain is not None or self.lacking is not None

    def risks(self, state: JudgingState) -> list[CurrentRisk]:
        """Return the risks of the rules now in a session whose state this is, none if it is not followed."""
        if self._follower is None or state.followed is None or not self._follower.continues(state.followed):
            return []
        return list(self._follower.risks(state.followed))

    def _follow(self, labelled: LabelledRows, states: Mapping[str, JudgingState]) -> FollowedBatch:
        """Follow the new events; an occurrence that was judged before without this chain is not followed.

        That holds under any rules: the events before are not at hand.
        """
        if self._follower is None:
            return FollowedBatch()
        before: dict[str, FollowedSession] = {}
        midway: dict[str, int] = {}
        for name, state in states.items():
            followed = state.followed
            if followed is not None and self._follower.continues(followed):
                before[name] = followed
            elif state.rules:
                midway[name] = state.occurrence
        return self._follower.follow(labelled, before, midway)

    @staticmethod
    def _bets(
        follower: SessionFollower, followed: FollowedBatch, events: Sequence[Event], batch_of: Sequence[int]
    ) -> dict[int, list[BetSum]]:
        """Return the bets on the events of each batch."""
        if followed.bets is None:
            return {}
        rows: list[int] = followed.bets.rows.tolist()
        ticks = [events[row].time // TICK_NS for row in rows]
        groups = BetGroups([batch_of[row] for row in rows], ticks, followed.agents)
        return bet_sums(follower.chain.digest, follower.names, followed.bets, groups)

    def _add_crossing(self, verdicts: BatchVerdicts, event: Event, crossing: EventCrossing) -> None:
        """Add a crossing to its batch, and the status `at_risk` where it is the rule's first."""
        assert self.chain is not None
        times = event.session_id, event.occurrence, event.seq, event.event_id, event.time
        crossed = CrossedEvent(*times, event.agent, event.late, event.history)
        record = crossing_record(
            self.chain, crossing.rule, crossed, crossing.value, crossing.context, is_up=crossing.is_up
        )
        verdicts.crossings.append(record)
        if crossing.is_first:
            named = record.pack, record.rule, record.rule_digest, record.severity.value
            at = event.session_id, event.occurrence
            times = event.agent, event.time
            change = StatusChange(SessionStatus.AT_RISK, *at, *named, *times, is_followed=True)
            verdicts.statuses.append(change)

    def _carried(self, states: Mapping[str, JudgingState]) -> dict[str, Carried]:
        """Return what is carried of sessions under these rules; rows of the release before are judged."""
        states = {name: state for name, state in states.items() if rules_part(state.rules) == self._rules_key}
        carried = {name: state.carried for name, state in states.items() if state.carried is not None}
        if any(each.program != self._carry_layout.program for each in carried.values()):
            raise StreamError("TRL701", "a session's state has the tables of another release", OTHER_RELEASE)
        stored = [state.rows for state in states.values() if state.rows]
        if stored:
            rows = self._rows(stored)
            none = np.zeros(len(rows), dtype=np.int64)
            done = continue_judging(self._carry_layout, {}, rows, none, satisfied=self._satisfied)
            carried |= {name: each for name, each in done.carried.items() if each is not None}
        return carried

    def _rows(self, stored: Sequence[Columns]) -> LabelledRows:
        """Return the labelled events that the release before stored."""
        columns: Columns = {name: [] for name in self._columns}
        for rows in stored:
            for name, values in rows.items():
                columns[name] += values
        types = {name: EVENT_SCHEMA.get(name) or label_type(name) for name in self._columns}
        frame = pl.DataFrame(columns, schema=types)
        count, keys = self.compiled.labeler.words, self.compiled.program.keys
        return LabelledRows.of_frame(frame, count, keys)

    def _verdicts(self, batch: Sequence[Event], outcome: BatchOutcome) -> BatchVerdicts:
        """Return the verdicts of a batch in the order of its sessions."""
        rank = {event.session_id: place for place, event in enumerate(batch)}
        unjudged = [self._lacking(change, outcome.records) for change in outcome.unjudged]
        phases = outcome.applied, outcome.violated, outcome.unmet, unjudged
        statuses = [
            change
            for changes in phases
            for change in sorted(changes, key=lambda change: rank[change.session_id])
        ]
        return BatchVerdicts(sorted(outcome.records, key=lambda record: rank[record.session_id]), statuses)

    @staticmethod
    def _lacking(change: StatusChange, records: Iterable[VerdictRecord]) -> StatusChange:
        """Return a change to unjudged with the state of the content that its record lacks."""
        at = change.session_id, rfc3339(change.occurrence), change.pack, change.rule
        lacks = [
            record.missing.content.value
            for record in records
            if isinstance(record.missing, Missing)
            and (record.session_id, record.occurrence, record.pack, record.rule) == at
        ]
        return msgspec.structs.replace(change, missing=lacks[-1]) if lacks else change


def chained_key(rules: str, chain: str | None) -> str:
    """Return the key of a rule set with the chain that follows it; `rules` is that without one."""
    return rules if chain is None else f"{rules}.{chain}"


def rules_part(key: str) -> str:
    """Return the part of a key that names the rules and the layout of their labels."""
    return ".".join(key.split(".", 2)[:2])


def chain_part(key: str) -> str | None:
    """Return the digest of the chain that a key names, None without one."""
    return next(iter(key.split(".", 2)[2:]), None)


def judge_of_before(rule_set: RuleSet, key: str, *, satisfied: bool = False) -> RuleSetJudge | None:
    """Return the judge by which the release before judged under that key, if it is of this rule set.

    Rules of that release stop at an unknown.
    """
    before = stopping(rule_set)
    if key.partition(".")[0] != rule_set_digest(before):
        return None
    return RuleSetJudge(compile_rule_set(before), satisfied=satisfied)


def _layout(compiled: CompiledRules, columns: Sequence[str]) -> str:
    """Return the places of rules and propositions in the columns as 16 hex digits."""
    rules = [[rule.pack, rule.id] for rule in compiled.rules]
    content = [rules, list(compiled.propositions.items()), columns]
    return hashlib.sha256(orjson.dumps(content)).hexdigest()[:16]
