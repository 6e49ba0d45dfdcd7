"""The follower of a rule, and the crossings of rules' thresholds over any batches of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from ...rules.engine.kernel import SLICES_MAX
from ...rules.engine.kernel_loop import NO_SLICE
from ...rules.model.arrays import I32, I64, Mask
from ..counting.labelled_sessions import LabelledSessions
from ..counting.sequences import Sequences, SymbolNumbers, sequences
from ..counting.symbols import of_slice
from ..counting.watched_rules import WatchedRules
from ..drift.event_bets import EventBets
from .follow_loop import NO_TEXT, Crossings, FollowMemory, FollowTables, follow_events
from .followed_risks import NO_RISK, FollowedRisks
from .rule_tables import RuleTables, chain_symbol


class RuleFollower:
    """The sequences of one rule, looked up in a chain's risks; `symbols` are those of the rule's pack.

    `steps` is its step table, which grows with what it reads. `key` is the place of the rule's `for_each`
    among the labeler's, None without one.
    """

    def __init__(
        self, watched: WatchedRules, rule: int, risks: FollowedRisks, symbols: SymbolNumbers
    ) -> None:
        self.risks, self.rule = risks, rule
        self.watched, self.symbols = watched, symbols
        self.steps = watched.steps(rule)
        for_each = watched.rules[rule].for_each
        self.key = None if for_each is None else watched.compiled.labeler.slice_keys.index(for_each)

    def sequences(self, sessions: LabelledSessions) -> Iterator[tuple[Sequences, I32]]:
        """Yield the sequences of the counted sessions, some at a time, with the place of the risk by place.

        The start of a sequence is no event, and has none.
        """
        for found in sequences(self.watched, self.rule, sessions, self.symbols, self.steps):
            codes = range(len(self.symbols.texts))
            texts = [
                chain_symbol(self.risks, self.rule, self.symbols, number, is_own=is_own)
                for number in codes
                for is_own in (False, True)
            ]
            states, memory = self.steps.names()
            places = self.risks.places(texts, states.tolist(), memory)[found.symbols, found.rows]
            yield found, np.where(found.symbols < 0, NO_RISK, places).astype(np.int32)

    def symbol(self, number: int) -> str:
        """Return the text of a symbol of `sequences`."""
        return of_slice(self.symbols.texts[number // 2], bool(number % 2))

    def tables(self) -> RuleTables:
        """Return empty tables of the rule, with the rows of its step table that were reached."""
        return RuleTables(self.watched, self.rule, self.risks, self.symbols, self.steps)


def begun(sessions: int, rules: int, members: I64) -> FollowMemory:
    """Return the memory of so many sessions and rules before their first events.

    `members` are the first numbers of the slices of each rule, and the end of the last one's.
    """
    of_sessions, slices = sessions * rules, int(members[-1])
    runs = of_sessions + slices
    return FollowMemory(
        rows=np.zeros(runs, dtype=np.int32),
        symbols=np.full(runs, NO_TEXT, dtype=np.int32),
        contexts=np.full(runs, NO_RISK, dtype=np.int32),
        weights=np.ones(runs, dtype=np.int64),
        above=np.zeros(runs, dtype=np.bool_),
        stopped=np.zeros(runs, dtype=np.bool_),
        cut=np.zeros(of_sessions, dtype=np.bool_),
        born=np.zeros(slices, dtype=np.bool_),
        heads=np.full(of_sessions, NO_SLICE, dtype=np.int32),
        links=np.full(slices, NO_SLICE, dtype=np.int32),
        sizes=np.zeros(of_sessions, dtype=np.int32),
        members=members,
    )


def follow(
    tables: FollowTables,
    spans: tuple[I64, I64],
    events: tuple[I32, Mask, I32],
    memory: FollowMemory,
    bets: EventBets,
) -> Crossings:
    """Return the crossings of `follow_events`, which has these arguments; memory and bets change."""
    room = len(tables.keys) * (len(events[0]) + 1)
    if not len(memory.links):
        # Without slices an event is at most one crossing of a rule.
        out = _room(room)
        count = follow_events(spans, events, tables, SLICES_MAX, memory, bets, out)
        return _first(out, count)
    while True:
        after, added, out = _copied(memory), _copied(bets), _room(room)
        count = follow_events(spans, events, tables, SLICES_MAX, after, added, out)
        if count <= room:
            break
        room = count
    for array, changed in zip((*memory, *bets), (*after, *added), strict=True):
        array[:] = changed
    return _first(out, count)


def _first(crossings: Crossings, count: int) -> Crossings:
    """Return the first ones of the crossings."""
    columns: list[Any] = [column[:count] for column in crossings]
    return Crossings(*columns)


Arrays = TypeVar("Arrays", FollowMemory, EventBets)


def _copied(arrays: Arrays) -> Arrays:
    copies: list[Any] = [array.copy() for array in arrays]
    return type(arrays)(*copies)


def _room(size: int) -> Crossings:
    """Return empty columns for so many crossings."""
    columns: list[Any] = [np.empty(size, dtype) for dtype in (*(np.int32,) * 5, np.uint8)]
    return Crossings(*columns)
