"""The follower of a rule: the crossings of its threshold in sessions, over any batches of their events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...rules.engine.kernel import SLICES_MAX
from ...rules.engine.kernel_loop import NO_SLICE
from ...rules.model.arrays import I32, I64
from ..counting.labelled_sessions import LabelledSessions
from ..counting.sequences import Sequences, SymbolNumbers, event_columns, sequences
from ..counting.symbols import RARE, of_slice
from ..counting.watched_rules import WatchedRules
from .follow_loop import Crossings, FollowMemory, FollowTables, follow_events
from .followed_risks import NO_RISK, FollowedRisks


class RuleFollower:
    """The sequences of one rule, looked up in a chain's risks; `symbols` are those of the rule's pack.

    It knows nothing of a session but what its memory has. `key` is the place of the rule's `for_each` among
    the labeler's, None without one.
    """

    def __init__(
        self, watched: WatchedRules, rule: int, risks: FollowedRisks, symbols: SymbolNumbers
    ) -> None:
        self.risks, self.rule = risks, rule
        self._watched, self._symbols = watched, symbols
        self._steps = watched.steps(rule)
        for_each = watched.rules[rule].for_each
        self.key = None if for_each is None else watched.compiled.labeler.slice_keys.index(for_each)

    def begin(self, sessions: LabelledSessions) -> FollowMemory:
        """Return the memory of sessions before their first events."""
        count, slices = len(sessions.counted), sessions.slice_count
        return FollowMemory(
            rows=np.zeros(count + slices, dtype=np.int32),
            above=np.zeros(count + slices, dtype=np.bool_),
            stopped=np.zeros(count + slices, dtype=np.bool_),
            cut=np.zeros(count, dtype=np.bool_),
            born=np.zeros(slices, dtype=np.bool_),
            heads=np.full(count, NO_SLICE, dtype=np.int32),
            links=np.full(slices, NO_SLICE, dtype=np.int32),
            sizes=np.zeros(count, dtype=np.int32),
        )

    def follow(self, sessions: LabelledSessions, begins: I64, ends: I64, memory: FollowMemory) -> Crossings:
        """Return the crossings at the events of each session from `begins` to `ends`; the memory changes.

        In a later call the sessions begin at the `ends` of this one.
        """
        tables = self._tables(sessions)
        slices = np.full(len(sessions.codes), NO_SLICE, dtype=np.int32)
        if self.key is not None:
            slices = np.ascontiguousarray(sessions.slices[:, self.key])
        spans, events = (begins, ends), (sessions.codes, sessions.over, slices)
        room = len(sessions.codes) + 1
        while True:
            after, out = _copied(memory), _room(room)
            count = follow_events(spans, events, tables, SLICES_MAX, self.risks.threshold, after, out)
            if count <= room:
                break
            room = count
        for array, changed in zip(memory, after, strict=True):
            array[:] = changed
        columns: list[Any] = [column[:count] for column in out]
        return Crossings(*columns)

    def sequences(self, sessions: LabelledSessions) -> Iterator[tuple[Sequences, I32]]:
        """Yield the sequences of the counted sessions, some at a time, with the place of the risk by place.

        The start of a sequence is no event, and has none.
        """
        for found in sequences(self._watched, self.rule, sessions, self._symbols, self._steps):
            codes = range(len(self._symbols.texts))
            texts = [self._text(number, is_own) for number in codes for is_own in (False, True)]
            states, memory = self._steps.names()
            places = self.risks.places(texts, states.tolist(), memory)[found.symbols, found.rows]
            yield found, np.where(found.symbols < 0, NO_RISK, places).astype(np.int32)

    def symbol(self, number: int) -> str:
        """Return the text of a symbol of `sequences`."""
        return of_slice(self._symbols.texts[number // 2], bool(number % 2))

    def _tables(self, sessions: LabelledSessions) -> FollowTables:
        """Return the tables for the events of these sessions."""
        numbers, columns, own_columns, marks = event_columns(
            self._watched, self.rule, sessions, self._symbols, self._steps
        )
        following, verdicts, _ = self._steps.arrays()
        codes: list[int] = numbers.tolist()
        texts = [self._text(number, is_own) for number in codes for is_own in (False, True)]
        states, memory = self._steps.names()
        return FollowTables(
            columns=columns,
            own_columns=own_columns,
            marks=marks,
            following=following,
            verdicts=verdicts,
            places=self.risks.places(texts, states.tolist(), memory),
            values=self.risks.values,
        )

    def _text(self, number: int, is_own: bool) -> str:
        """Return the symbol of an event for the chain: that of all rare ones where it knows no other."""
        text = of_slice(self._symbols.texts[number], is_own)
        letters = self._symbols.letters[self.rule].get(number)
        if letters is None or self.risks.knows(text):
            return text
        return of_slice(RARE + letters.text, is_own)


def _copied(memory: FollowMemory) -> FollowMemory:
    arrays: list[Any] = [array.copy() for array in memory]
    return FollowMemory(*arrays)


def _room(size: int) -> Crossings:
    """Return empty columns for so many crossings."""
    columns: list[Any] = [np.empty(size, dtype) for dtype in (*(np.int32,) * 4, np.uint8)]
    return Crossings(*columns)
