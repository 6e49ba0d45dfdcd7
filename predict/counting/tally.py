"""The tally of an archive: it takes buckets of sessions in any order, and gives the counts of each rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from ...rules.model.arrays import I32, I64, U64
from ..chain.learned import Counted
from .grouped import GroupedCounts
from .labelled_sessions import LabelledSessions
from .numbering import RuleTally, counted_rule
from .sequences import Sequences, SymbolNumbers, sequences
from .split import Split
from .step_rows import StepRows
from .transition_loop import count_transitions
from .walk_parts import WalkMemory, WalkPart, WalkStore
from .watched_rules import WatchedRules

HELD_OUT = -1
DISTINCT = 1 << 12
"""Distinct transitions of one rule in some sequences, for which there is room at first."""


class ChainTally:
    """Counts and walks so far. `sessions`, `learned` and `events` count occurrences and their events,
    `closed` the learned ones that have closed.

    All sessions of an id must be in one bucket. The result depends only on the sessions, not on the buckets.
    """

    def __init__(self, watched: WatchedRules, split: Split, store: WalkStore | None = None) -> None:
        self.watched, self.split = watched, split
        self.sessions = self.learned = self.closed = self.events = 0
        self._store: WalkStore = WalkMemory() if store is None else store
        self._steps: list[StepRows] = [watched.steps(rule) for rule in range(len(watched.rules))]
        self._symbols = {rule.pack: SymbolNumbers() for rule in watched.rules}
        self._counts = [GroupedCounts() for _ in watched.rules]
        self._uses: list[dict[int, int]] = [{} for _ in watched.rules]
        self._agents: dict[str, int] = {}
        self._ids: list[str] = []
        self._distinct = DISTINCT

    def add(self, bucket: LabelledSessions) -> None:
        """Add the counted sessions of a bucket."""
        folds = np.array(self.split.folds(bucket.ids), dtype=np.int32)
        agents = np.array(
            [
                self._agents.setdefault(name, len(self._agents)) if is_counted else 0
                for name, is_counted in zip(bucket.agents, bucket.counted.tolist(), strict=True)
            ],
            dtype=np.int32,
        )
        sessions = self._numbered(bucket.ids)
        counted = bucket.counted
        self.sessions += int(counted.sum())
        self.learned += int((counted & (folds != HELD_OUT)).sum())
        self.closed += int((counted & (folds != HELD_OUT) & ~bucket.open).sum())
        self.events += int(np.diff(bucket.bounds)[counted].sum())
        for rule, subject in enumerate(self.watched.rules):
            symbols, steps = self._symbols[subject.pack], self._steps[rule]
            for found in sequences(self.watched, rule, bucket, symbols, steps):
                self._count(rule, found, folds, agents)
                self._walk(rule, found, folds, agents, sessions)

    @property
    def session_ids(self) -> tuple[str, ...]:
        """Return the ids of the sessions, which their numbers in walks count."""
        return tuple(sorted(self._ids))

    def counted(self, known: Sequence[Collection[str]] = ()) -> Iterator[Counted]:
        """Yield the counts of the rules, in their order; `known` are the symbols of a chain by rule."""
        names = sorted(self._agents)
        agents = np.array([names.index(name) for name in self._agents], dtype=np.int32)
        by_id = sorted(range(len(self._ids)), key=self._ids.__getitem__)
        rank = np.empty(len(by_id), dtype=np.int64)
        rank[by_id] = np.arange(len(by_id))
        for rule in range(len(self.watched.rules)):
            yield self._counted_rule(rule, tuple(names), agents, rank, known[rule] if known else ())

    def _counted_rule(
        self, rule: int, names: tuple[str, ...], agents: I32, rank: I64, known: Collection[str]
    ) -> Counted:
        keys, counts = self._counts[rule].total()
        symbols = self._symbols[self.watched.rules[rule].pack]
        tally = RuleTally(
            symbols.texts,
            symbols.letters.get(rule, {}),
            self._uses[rule],
            self._steps[rule].rows,
            keys,
            counts,
        )
        return counted_rule(self.watched, rule, tally, self._store.parts(rule), names, agents, rank, known)

    def _numbered(self, ids: tuple[str, ...]) -> I32:
        """Return new numbers for the distinct session ids of a bucket, by slot."""
        known: dict[str, int] = {}
        numbers = [known.setdefault(name, len(self._ids) + len(known)) for name in ids]
        self._ids.extend(known)
        return np.array(numbers, dtype=np.int32)

    def _count(self, rule: int, found: Sequences, folds: I32, agents: I32) -> None:
        """Count the symbols, and the transitions in sessions that the chain learns from."""
        fold = folds[found.slots]
        heads = np.where(fold == HELD_OUT, -1, agents[found.slots].astype(np.int64) * 8 + fold)
        texts = self._symbols[self.watched.rules[rule].pack].texts
        arrays = found.symbols, found.rows, found.bounds, found.successors
        while True:
            times = np.zeros(2 * len(texts), dtype=np.int64)
            keys, counts, table = _room(self._distinct)
            distinct = count_transitions(arrays, heads, times, (keys, counts, table))
            if distinct >= 0:
                break
            self._distinct *= 4
        uses = self._uses[rule]
        for number in np.flatnonzero(times).tolist():
            uses[number] = uses.get(number, 0) + int(times[number])
        self._counts[rule].add(keys[:distinct].copy(), counts[:distinct].copy())

    def _walk(self, rule: int, found: Sequences, folds: I32, agents: I32, sessions: I32) -> None:
        """Store the walks of the sessions held out, of all where none are."""
        chosen = np.ones(len(found.slots), dtype=np.bool_)
        if self.split.hold_out > 0:
            chosen = folds[found.slots] == HELD_OUT
        lengths = np.diff(found.bounds)
        places = np.flatnonzero(np.repeat(chosen, lengths))
        self._store.append(
            rule,
            WalkPart(
                symbols=found.symbols[places],
                rows=found.rows[places],
                violated=found.violated[places],
                lengths=lengths[chosen],
                sessions=sessions[found.slots[chosen]],
                agents=agents[found.slots[chosen]],
                endings=found.endings[chosen],
            ),
        )


def _room(size: int) -> tuple[U64, I64, I32]:
    """Return arrays for so many distinct transitions, as `count_transitions` fills them."""
    return (
        np.empty((size, 2), dtype=np.uint64),
        np.empty(size, dtype=np.int64),
        np.full(4 * size, -1, dtype=np.int32),
    )
