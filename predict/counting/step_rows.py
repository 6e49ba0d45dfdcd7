"""The rows of a rule's step table: its machine, its memory formulas, and whether the slice has begun."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from ...rules.engine.stepper import MachineRun
from ...rules.model.arrays import I32, U8
from ...rules.model.machine import Machine
from ...schemas.verdict import Verdict
from ..chain.steps import (
    CUT_CLOSING,
    CUT_STEP,
    HELD_CLOSING,
    OPEN_CLOSING,
    PENDING_STEP,
    SATISFIED_STEP,
    UNMET_CLOSING,
    VIOLATED_STEP,
    StepTable,
)
from ..error import PredictError
from .memory_machine import MemoryMachine

ROWS_MAX = 100_000
"""Rows of the step table of one rule."""

SET_BITS_MAX = 30
"""States of a machine whose sets have numbers that fit; the sets of others are numbered by a hash."""

_CLOSINGS = {
    None: OPEN_CLOSING,
    Verdict.HELD: HELD_CLOSING,
    Verdict.UNMET: UNMET_CLOSING,
    Verdict.UNJUDGED: CUT_CLOSING,
}


class SymbolLetters(NamedTuple):
    """The effect of a symbol on a rule: the letters that the rule and its memory formulas may read.

    The letter None stands for an event that the rule does not see; without any letter, the rule cannot judge
    the event. `is_own` is true where the event carries the slice's value.
    """

    rule: tuple[int | None, ...]
    memory: tuple[tuple[int, ...], ...]
    is_own: bool

    @property
    def text(self) -> str:
        """Return the letters in a text that sorts and that no other letters have."""
        parts = ["|".join("-" if letter is None else str(letter) for letter in self.rule)]
        parts += ["|".join(map(str, letters)) for letters in self.memory]
        return ".".join(parts)

    @staticmethod
    def of_text(text: str, is_own: bool) -> SymbolLetters:
        """Return the letters of a `text`."""
        if not text:
            return SymbolLetters((), (), is_own)
        first, *memory = text.split(".")
        read = tuple(None if each == "-" else int(each) for each in first.split("|"))
        return SymbolLetters(read, tuple(tuple(map(int, part.split("|"))) for part in memory), is_own)


class RowKey(NamedTuple):
    """A row of a step table: the states that the rule's machine may be in, likewise those of each memory.

    `begun` is true where the slice has had an event of its own, and always for other rules.
    """

    states: frozenset[int]
    memory: tuple[tuple[int, ...], ...]
    begun: bool

    @property
    def text(self) -> str:
        """Return the row as a text that depends on the machines alone."""
        parts = [sorted(self.states), *self.memory]
        return "|".join(".".join(map(str, part)) for part in parts) + ("+" if self.begun else "")

    @staticmethod
    def of_text(text: str) -> RowKey:
        """Return the row of a `text`."""
        states, *memory = (tuple(map(int, part.split("."))) for part in text.removesuffix("+").split("|"))
        return RowKey(frozenset(states), tuple(memory), text.endswith("+"))


class StepRows:
    """The step table of one rule, which grows with the symbols that it is asked for.

    A slice that has not begun closes with no verdict, so its rows differ from others where a close may be
    `unmet`.
    """

    def __init__(
        self, machine: Machine, memory: Sequence[MemoryMachine], is_sliced: bool, where: str
    ) -> None:
        self._machine, self._memory, self._where = machine, memory, where
        begins = is_sliced and Verdict.UNMET in machine.closing
        first = RowKey(frozenset((0,)), ((0,),) * len(memory), not begins)
        self.rows, self._numbers = [first], {first: 0}
        self._next: list[list[int]] = [[]]
        self._verdicts: list[list[int]] = [[]]
        self._columns: dict[SymbolLetters, int] = {}
        self._arrays: tuple[I32, U8, U8] | None = None
        self._set_numbers: dict[frozenset[int], int] = {}
        self._names: tuple[I32, tuple[str, ...]] = np.empty(0, dtype=np.int32), ()

    def columns(self, symbols: Sequence[SymbolLetters]) -> I32:
        """Return the column of each of these letters, after the table has grown to have them."""
        known = len(self._columns)
        found = [self._columns.setdefault(letters, len(self._columns)) for letters in symbols]
        if len(self._columns) > known:
            self._grow()
        return np.array(found, dtype=np.int32)

    def row(self, key: RowKey) -> int:
        """Return the number of a row, after the table has grown to have it."""
        known = len(self.rows)
        number = self._number(key)
        if len(self.rows) > known:
            self._grow()
        return number

    def arrays(self) -> tuple[I32, U8, U8]:
        """Return the next row and the verdict by row and column, and the closing by row."""
        if self._arrays is None:
            width = (len(self.rows), len(self._columns))
            closings = [self._closing(row) for row in self.rows]
            self._arrays = (
                np.array(self._next, dtype=np.int32).reshape(width),
                np.array(self._verdicts, dtype=np.uint8).reshape(width),
                np.array(closings, dtype=np.uint8),
            )
        return self._arrays

    def table(self, symbols: Sequence[SymbolLetters]) -> StepTable:
        """Return the step table over symbols with these letters."""
        columns = self.columns(symbols)
        following, verdicts, closings = self.arrays()
        return StepTable(
            next=following[:, columns],
            verdicts=verdicts[:, columns],
            closings=closings,
            finals=np.array([MachineRun(self._machine, row.states).is_final for row in self.rows]),
            states=self.names()[0],
            memory=self.names()[1],
            residuals=tuple(MachineRun(self._machine, row.states).residual for row in self.rows),
        )

    def names(self) -> tuple[I32, tuple[str, ...]]:
        """Return by row the number of its states and the text of its memory, as every table names it."""
        states, memory = self._names
        new = self.rows[len(memory) :]
        if new:
            numbers = np.array([self._set_number(row.states) for row in new], dtype=np.int32)
            self._names = np.append(states, numbers), (*memory, *map(self._memory_text, new))
        return self._names

    def _grow(self) -> None:
        """Step every row on every column, and the rows that these steps reach likewise."""
        self._arrays = None
        letters = list(self._columns)
        for number, row in enumerate(self.rows):  # the loop appends rows
            following, verdicts = self._next[number], self._verdicts[number]
            for each in letters[len(following) :]:
                key, verdict = self._step(row, each)
                following.append(self._number(key))
                verdicts.append(verdict)

    def _number(self, key: RowKey) -> int:
        number = self._numbers.get(key)
        if number is None:
            if len(self.rows) == ROWS_MAX:
                hint = "use fewer memory formulas, or simpler ones"
                what = f"the rule and its memory have more than {ROWS_MAX:,} states together"
                raise PredictError("TRL810", self._where, what, hint)
            number = self._numbers[key] = len(self.rows)
            self.rows.append(key)
            self._next.append([])
            self._verdicts.append([])
        return number

    def _step(self, row: RowKey, letters: SymbolLetters) -> tuple[RowKey, int]:
        """Return the row after an event with these letters, and the code of its verdict."""
        if not letters.rule:
            return row, CUT_STEP
        run = MachineRun(self._machine, row.states)
        step = run.step_letters(letters.rule)
        memory = tuple(
            tuple(sorted({machine.next[state][letter] for state in states for letter in possible}))
            for machine, states, possible in zip(self._memory, row.memory, letters.memory, strict=True)
        )
        if None in letters.rule:
            memory = tuple(
                tuple(sorted({*states, *before})) for states, before in zip(memory, row.memory, strict=True)
            )
        key = RowKey(run.broken | run.unbroken, memory, row.begun or letters.is_own)
        if step.is_split:
            return row, CUT_STEP
        if not step.is_recorded:
            return key, PENDING_STEP
        return key, VIOLATED_STEP if step.verdict is Verdict.VIOLATED else SATISFIED_STEP

    def _closing(self, row: RowKey) -> int:
        return _CLOSINGS[MachineRun(self._machine, row.states).closing] if row.begun else OPEN_CLOSING

    def _memory_text(self, row: RowKey) -> str:
        texts = [machine.text(states) for machine, states in zip(self._memory, row.memory, strict=True)]
        begun = self.rows[0].begun or not row.begun
        return ",".join(text for text in ("" if begun else "+own", *texts) if text)

    def _set_number(self, states: frozenset[int]) -> int:
        """Return the number of states, which depends on nothing but them."""
        found = self._set_numbers.get(states)
        if found is None:
            found = set_number(states, len(self._machine.next))
            assert found not in self._set_numbers.values(), (
                f"two sets of states of {self._where} share a number"
            )
            self._set_numbers[states] = found
        return found


def set_number(states: frozenset[int], count: int) -> int:
    """Return the number of a set of states of a machine with `count` states: that of the only one, if it is.

    Every other set has a number of at least `count`.
    """
    if len(states) == 1:
        return next(iter(states))
    mask = sum(1 << state for state in states)
    if count <= SET_BITS_MAX:
        return count + mask
    hashed = int.from_bytes(blake2b(mask.to_bytes(-(-count // 8), "little"), digest_size=4).digest())
    return count + hashed % ((1 << 31) - count)
