"""The following of a chain over the sessions that an audit judges, from the labels of the same pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ...archive.writer import CHAIN_COLUMN, RULES_COLUMN
from ...predict.counting.labelled_sessions import read_sessions
from ...predict.counting.sequences import SymbolNumbers
from ...predict.following.archive.archive_follower import ArchiveFollower, BucketSessions
from ...predict.following.archive.session_loop import BucketSpans
from ...predict.following.archive.warning_tally import WarningFigures
from ...predict.following.followed_chain import FollowedChain
from ...predict.following.follower import RuleFollower
from ...predict.following.risk_courses import RiskCourse, risk_courses
from ...rules.engine import kernel
from ...rules.engine.judge import CompiledRules, Judged, columns_at, slice_slots
from ...rules.engine.kernel_loop import NO_SLICE
from ...rules.engine.sessions import Clock, numbers
from ...rules.labels.joint.joint_columns import JointColumns
from ...rules.model.arrays import I32, I64, Mask
from ...schemas.frames.events import KIND, TIME
from ...schemas.time import rfc3339
from ..evidence.bundle import SessionName
from ..evidence.crossing_lines import CrossedRisk, CrossedRule, CrossingLines
from ..findings.waiving import RuleName
from ..report.choice import ChosenSession
from .bucket_crossings import BucketCrossings, CrossedRuleRisks
from .event_codes import EventCodes
from .warned_sessions import CrossedSession, WarnedSessions

LIVE_COLUMNS = (RULES_COLUMN, CHAIN_COLUMN)
"""The columns of a live archive that name what judged and what followed an event."""

FOLLOWED_COLUMNS = ("kind",)
"""The columns of events that following needs beside those of judging in order."""


class ArchiveFollowing:
    """The rules of a chain over the buckets of an audit by other rules; sessions may come in any order.

    `labels` are those of the audit's rules and of the chain's together. With `live`, only what was followed
    live is: the sessions that began under a rule set, by those of the chain's rules that `live` has for its
    digest, up to the first event that does not name the chain. The buckets have `LIVE_COLUMNS` then.
    """

    def __init__(
        self,
        chain: FollowedChain,
        compiled: CompiledRules,
        live: Mapping[str, Collection[int]] | None = None,
    ) -> None:
        self._chain, self._compiled, self._live = chain, compiled, live
        self._keys = compiled.program.keys
        watched = chain.watched
        self.labels = JointColumns(compiled.labeler, watched.compiled.labeler)
        self._codes = EventCodes(self.labels, watched.compiled)
        symbols = {rule.pack: SymbolNumbers() for rule in watched.rules}
        self._rules = [
            ArchiveFollower(RuleFollower(watched, rule, risks, symbols[watched.rules[rule].pack]))
            for rule, risks in chain.risks.items()
        ]
        names = [(each.follower.risks.pack, each.follower.risks.rule) for each in self._rules]
        self._order = sorted(range(len(names)), key=names.__getitem__)
        self.rules: tuple[CrossedRuleRisks, ...] = tuple(
            self._risks_of(self._rules[at]) for at in self._order
        )

    @property
    def more(self) -> tuple[str, ...]:
        """Return the label columns beside those of the audit's rules."""
        return (*self.labels.more_words, *self.labels.more_slices)

    def follow(self, judged: Judged, clock: Clock, columns: Sequence[str]) -> BucketCrossings:
        """Count the sessions of a bucket, and return their crossings, whose events have the columns."""
        over = judged.column("seq").to_numpy() > kernel.EVENTS_MAX
        inside = np.ones(len(over), dtype=np.bool_)
        if clock.has_window:
            inside = clock.inside(numbers(judged.column("time")))
        codes, new = self._codes.numbered(judged, over)
        slices, slice_places = self._slices(judged)
        sessions = judged.sessions
        ends = _ends(sessions.bounds, over if self._live is None else over | ~self._is_followed(judged))
        begun_under = self._rule_sets(judged)
        rated = inside & judged.rated
        parts = [np.empty((0, 6), dtype=np.int32)]
        for place, at in enumerate(self._order):
            rule = self._rules[at]
            rule.add(new)
            counted = sessions.counted & begun_under(rule.follower.rule)
            spans = BucketSpans(sessions.bounds, ends, counted, sessions.open)
            found = rule.follow(BucketSessions(spans, codes, over, rated, slices, len(slice_places)))
            parts.append(np.insert(found, 2, place, axis=1))
        return self._bucket_crossings(judged, np.concatenate(parts), inside, slice_places, columns)

    def unfollowed(self, judged: Judged) -> Iterator[CrossedSession]:
        """Yield the sessions of a bucket that were not followed live to their end, without crossings."""
        if self._live is None:
            return
        bounds, lacks = judged.sessions.bounds, ~self._is_followed(judged)
        ends = _ends(bounds, lacks)
        places = ends[(ends < bounds[1:]) & judged.sessions.counted]
        ids, seqs = judged.column("session_id", places), judged.column("seq", places)
        occurrences: list[int] = numbers(judged.column("occurrence", places)).tolist()
        for session_id, occurrence, seq in zip(ids, occurrences, seqs, strict=True):
            yield CrossedSession(session_id, rfc3339(occurrence), seq, (), (), seq)

    @property
    def digests(self) -> dict[RuleName, str]:
        """Return the digests of the followed rules."""
        return {(each.pack, each.rule): each.rule_digest for each in self._chain.risks.values()}

    @property
    def drifted(self) -> frozenset[RuleName]:
        """Return the rules that have drifted, once all sessions are followed."""
        rules = ((rule.follower.risks, rule.tally) for rule in self._rules)
        return frozenset((risks.pack, risks.rule) for risks, tally in rules if tally.has_drifted())

    def figures(self, sessions: WarnedSessions) -> dict[RuleName, WarningFigures]:
        """Return the figures of all that was followed, given the sessions with crossings and verdicts."""
        found: dict[RuleName, WarningFigures] = {}
        for rule in self._rules:
            name = rule.follower.risks.pack, rule.follower.risks.rule
            counts = sessions.warned[name], sessions.violating[name], sessions.missed[name]
            found[name] = rule.tally.figures(*counts)
        return found

    def courses(self, chosen: Sequence[ChosenSession]) -> dict[SessionName, list[RiskCourse]]:
        """Return the risks over the events of drawn sessions, whose labels have the columns `more`."""
        drawn = [each for each in chosen if each.events]
        if not drawn:
            return {}
        labelled = pl.concat([self._labelled(number, each) for number, each in enumerate(drawn)])
        sessions = read_sessions(self._chain.watched.compiled, labelled, Clock(last=0, idle=0))
        names = [(drawn[int(name)].session_id, drawn[int(name)].occurrence) for name in sessions.ids]
        found: dict[SessionName, list[RiskCourse]] = {}
        for rule in self._rules:
            for each, places in rule.follower.sequences(sessions):
                courses = risk_courses(rule.follower, each, places, sessions, labelled, range(len(names)))
                for slot, course in courses:
                    found.setdefault(names[slot], []).append(course)
        return found

    def _is_followed(self, judged: Judged) -> Mask:
        """Return the events that name the chain."""
        return judged.column(CHAIN_COLUMN).eq_missing(self._chain.digest).to_numpy()

    def _rule_sets(self, judged: Judged) -> Callable[[int], Mask]:
        """Return the function that returns the sessions which began under a rule set with a rule."""
        sessions = judged.sessions
        if self._live is None:
            return lambda _: np.ones(len(sessions.counted), dtype=np.bool_)
        live = self._live
        digests: list[str] = judged.column(RULES_COLUMN, sessions.bounds[:-1]).to_list()

        def begun_under(rule: int) -> Mask:
            return np.array([rule in live[digest] for digest in digests], dtype=np.bool_)

        return begun_under

    def _risks_of(self, rule: ArchiveFollower) -> CrossedRuleRisks:
        """Return a rule with what its crossings are written of."""
        risks = rule.follower.risks
        severity = self._chain.watched.rules[rule.follower.rule].severity
        lines = CrossingLines(
            CrossedRule(
                risks.pack,
                risks.rule,
                risks.rule_digest,
                severity,
                self._chain.digest,
                risks.within,
                risks.threshold,
            )
        )
        contexts = [risks.at(place) for place in range(len(risks.values))]
        values = [
            None if each is None else CrossedRisk(each.risk, each.low, each.high, each.sessions, each.basis)
            for each in contexts
        ]
        return CrossedRuleRisks((risks.pack, risks.rule), lines, values)

    def _slices(self, judged: Judged) -> tuple[I32, I64]:
        """Return the slice slot of each event by the chain's keys, and a place of each slot's value."""
        keys, names = self.labels.keys, self.labels.more_slices
        if not names:
            return judged.slices[:, list(keys)], judged.slice_places
        count = len(names) // 2
        renamed = {name: f"{'su' if place % 2 else 's'}{place // 2}" for place, name in enumerate(names)}
        rows = columns_at(judged.labelled, names, judged.order.rows).rename(renamed)
        bounds = judged.sessions.bounds
        slots = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
        more, places = slice_slots(rows, slots, count)
        more = np.where(more > NO_SLICE, more + len(judged.slice_places), more).astype(np.int32)
        every = np.hstack([judged.slices[:, : self._keys], more])
        return every[:, list(keys)], np.concatenate([judged.slice_places, places])

    def _bucket_crossings(
        self, judged: Judged, rows: I32, inside: Mask, slice_places: I64, columns: Sequence[str]
    ) -> BucketCrossings:
        """Return crossings, given by event, slot, rule, slice slot, risk and level, in the order of lines."""
        members = np.unique(rows[:, 3])
        values = dict(zip(members.tolist(), self._values(judged, rows, members, slice_places), strict=True))
        texts = sorted({value for value in values.values() if value is not None})
        ranks = {None: 0} | {value: rank for rank, value in enumerate(texts, 1)}
        by_member: I32 = np.array([ranks[values[member]] for member in members.tolist()], dtype=np.int32)
        member = by_member[np.searchsorted(members, rows[:, 3])]
        order = np.lexsort((rows[:, 5], member, rows[:, 2], rows[:, 0]))
        events, places = np.unique(rows[:, 0], return_inverse=True)
        slots = np.empty(len(events), dtype=np.int32)
        slots[places] = rows[:, 1]
        found = np.column_stack([places.astype(np.int32), rows[:, 2], member, rows[:, 4], rows[:, 5]])[order]
        frame = columns_at(judged.labelled, columns, judged.order.rows[events])
        return BucketCrossings(found, frame, slots, inside[events], (None, *texts))

    def _values(self, judged: Judged, rows: I32, members: I32, slice_places: I64) -> Iterator[str | None]:
        """Yield the value of each of these slice slots."""
        keys: Mapping[int, int | None] = {
            place: self._rules[at].follower.key for place, at in enumerate(self._order)
        }
        _, firsts = np.unique(rows[:, 3], return_index=True)
        for member, rule in zip(members.tolist(), rows[firsts, 2].tolist(), strict=True):
            key = keys[rule]
            if member == NO_SLICE or key is None:
                yield None
            else:
                row = judged.order.rows[slice_places[member]]
                yield judged.labelled[f"s{self.labels.keys[key]}"][int(row)]

    def _labelled(self, number: int, session: ChosenSession) -> pl.DataFrame:
        """Return the events of a drawn session with the labels of the chain's rules; its id is the number."""
        labels, compiled = session.labels, self._chain.watched.compiled
        joint = [self._words(session, letter) for letter in "tu"]
        columns: dict[str, Any] = {
            f"{letter}{word}": words[:, word]
            for letter, words in zip("tu", map(self.labels.second_words, joint), strict=True)
            for word in range(compiled.labeler.words)
        }
        for place, key in enumerate(self.labels.keys):
            columns |= {f"{letter}{place}": labels[f"{letter}{key}"] for letter in ("s", "su")}
        rows = [(str(number), each["time"], each["kind"], each["event_id"]) for each in session.events]
        schema = {"session_id": pl.String, "time": pl.Int64, "kind": KIND, "event_id": pl.String}
        events = pl.DataFrame(rows, schema, orient="row").with_columns(
            labels["seq"], pl.col("time").cast(TIME), pl.lit(0).cast(TIME).alias("occurrence")
        )
        return events.with_columns(**columns)

    def _words(self, session: ChosenSession, letter: str) -> Any:
        """Return the joint words of a drawn session's events."""
        names = [name for name in session.labels.columns if name[0] == letter]
        words = sorted(names, key=lambda name: int(name[1:]))
        found = session.labels.select(words).to_numpy() if words else np.empty((len(session.labels), 0))
        return np.ascontiguousarray(found).astype(np.uint64)


def _ends(bounds: I64, over: Mask) -> I64:
    """Return by session the first event that is over the limit, or the end of its events."""
    ends = bounds[1:].copy()
    places = np.flatnonzero(over)
    slots = np.searchsorted(bounds, places, side="right") - 1
    np.minimum.at(ends, slots, places)
    return ends
