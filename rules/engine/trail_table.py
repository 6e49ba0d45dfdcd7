"""Trail tables: the product of a rule's machine and its history, by which witnesses are found.

The trail of a run is what a witness of it needs: the event that last changed each history bit, and the events
since the residual last equalled the rule. A table has the effect of each letter on it, so that
`trail_loop.replay` steps a trail without a formula.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from ...schemas.verdict import Verdict
from ..compiler.events import Events, ValueOf
from ..compiler.history import HistoryMemory, history
from ..compiler.letters import Alphabet, alphabet, is_propositional
from ..compiler.limits import Work
from ..compiler.shape import antecedent, invariant_body
from ..model.arrays import I32, I64, U8
from ..model.formula import PAST, Formula, Op, has_future
from ..model.machine import PENDING, STAYS_VIOLATED, VERDICT_MASK, VERDICTS, Machine
from ..model.printer import to_text
from ..model.rule import Rule
from .trail_loop import APPENDS, CLEARS, UNWATCHED

_State: TypeAlias = tuple[int, HistoryMemory]
"""A state of the machine and a memory."""


class _Seen(NamedTuple):
    """The memory after an event, the number of the bits' values at it, and of the bits that decide at it."""

    after: HistoryMemory
    values: int
    deciding: int


@dataclass(frozen=True, slots=True)
class TrailTable:
    """The witness trail of one rule as a table.

    `letters[word]` is the letter of a word of the machine, and `entries[state * width + letter]` has the
    fields of that step, in the order of `trail_loop`. `values[n]` has the values of the history bits that
    the field `VALUES` numbers `n`; number 0 has those before the first event. `delays` is, for each bit, the
    number of events between its change and the event that caused it. `bits` and `residuals` are texts, and
    `deciding[n]` are the bits that the field `DECIDING` numbers `n`. `machine_states[state]` is the machine's
    state.
    """

    letters: I32
    width: int
    entries: I32
    values: U8
    delays: I64
    bits: tuple[str, ...]
    deciding: tuple[tuple[int, ...], ...]
    residuals: tuple[str, ...]
    machine_states: I32


def trail_table(rule: Rule, machine: Machine) -> TrailTable:
    """Return the trail table of a rule; `machine` is the one that the compiler returns for it."""
    return _Product(rule, machine).table()


class _Product:
    """The search for the reachable pairs of a machine's state and a history memory.

    The compiler visits each of these pairs, with its residual, before it minimises the machine. So its limits
    hold for the product too, which has at most `CompilerLimits.edges_max` entries.
    """

    def __init__(self, rule: Rule, machine: Machine) -> None:
        bits, work = rule.transitions, Work(f"{rule.pack}/{rule.id}")
        applies = antecedent(rule.formula) if rule.applies_to is None else rule.applies_to
        self._machine, self._transitions = machine, bits
        self._alphabet = alphabet((rule.formula, applies, *bits.values()), bits, work)
        assert self._alphabet.propositions == machine.propositions
        self._roots = tuple(_future_free(rule.formula, bits))
        self._body = invariant_body(rule.formula, bits)
        self._history = history(self._roots, bits)
        self._events = Events(self._alphabet, self._history, work)
        watched = (*self._history.nodes, *(Formula(Op.PROP, name=name) for name in bits))
        self._bits = {bit: number for number, bit in enumerate(watched)}
        self._values: dict[tuple[bool, ...], int] = {tuple(map(_value_before, watched)): 0}
        self._deciding: dict[tuple[int, ...], int] = {(): 0}
        self._residuals: dict[str, int] = {}
        self._states: dict[_State, int] = {}
        self._ordered: list[_State] = []
        self._seen: dict[HistoryMemory, list[_Seen]] = {}

    def table(self) -> TrailTable:
        """Search from the start, and return the table."""
        firsts = [(words & -words).bit_length() - 1 for words in self._alphabet.classes]
        letters = [self._machine.letters[word] for word in firsts]
        self._visit(0, self._history.start)
        entries: list[tuple[int, int, int, int, int]] = []
        for state, memory in self._ordered:  # the loop appends states
            seen = None if self._is_final(state) else self._seen_after(memory)
            entries += [
                self._entry(state, letter, None if seen is None else seen[place])
                for place, letter in enumerate(letters)
            ]
        return TrailTable(
            letters=_letters(self._alphabet),
            width=len(letters),
            entries=np.array(entries, dtype=np.int32),
            values=np.array(list(self._values), dtype=np.uint8),
            delays=np.array([_delay(bit) for bit in self._bits], dtype=np.int64),
            bits=tuple(map(to_text, self._bits)),
            deciding=tuple(self._deciding),
            residuals=tuple(self._residuals),
            machine_states=np.array([state for state, _ in self._ordered], dtype=np.int32),
        )

    def _visit(self, state: int, memory: HistoryMemory) -> int:
        # No event after a final verdict is explained.
        pair = state, self._history.start if self._is_final(state) else memory
        number = self._states.setdefault(pair, len(self._ordered))
        if number == len(self._ordered):
            self._ordered.append(pair)
        return number

    def _is_final(self, state: int) -> bool:
        return all(output & VERDICT_MASK >= STAYS_VIOLATED for output in self._machine.output[state])

    def _seen_after(self, memory: HistoryMemory) -> list[_Seen]:
        """Return the memory after each letter, with the values of the bits and those that decide there."""
        seen = self._seen.get(memory)
        if seen is None:
            seen = self._seen[memory] = [self._see(after, value) for after, value in self._events(memory)]
        return seen

    def _see(self, after: HistoryMemory, value: ValueOf) -> _Seen:
        values = self._values.setdefault(tuple(map(value, self._bits)), len(self._values))
        parts = self._roots if self._body is None else (self._body,)
        reasons = (reason for part in parts for reason in _reasons(part, value, self._transitions))
        deciding = tuple(dict.fromkeys(self._bits[reason] for reason in reasons))
        return _Seen(after, values, self._deciding.setdefault(deciding, len(self._deciding)))

    def _entry(self, state: int, letter: int, seen: _Seen | None) -> tuple[int, int, int, int, int]:
        """Return the fields of a step from a machine's state on its letter; `seen` is None if it is final."""
        machine = self._machine
        target, verdict = machine.next[state][letter], machine.output[state][letter] & VERDICT_MASK
        residual = machine.residual[target]
        effect = 0
        if verdict != PENDING or residual == machine.residual[0]:
            effect = CLEARS
        elif residual != machine.residual[state]:
            effect = APPENDS
        if verdict != PENDING:
            residual = "false" if VERDICTS[verdict] is Verdict.VIOLATED else "true"
        text = self._residuals.setdefault(residual, len(self._residuals))
        if seen is None:
            return self._visit(target, self._history.start), effect, text, UNWATCHED, 0
        # While an invariant holds, nothing about the past decides.
        deciding = 0 if self._body is not None and verdict == PENDING else seen.deciding
        return self._visit(target, seen.after), effect, text, seen.values, deciding


def _letters(alphabet: Alphabet) -> I32:
    """Return the letter of each word."""
    size = 1 << len(alphabet.propositions)
    letters = np.zeros(size, dtype=np.int32)
    for letter, words in enumerate(alphabet.classes):
        packed = np.frombuffer(words.to_bytes(-(-size // 8), "little"), dtype=np.uint8)
        letters[np.flatnonzero(np.unpackbits(packed, count=size, bitorder="little"))] = letter
    return letters


def _value_before(bit: Formula) -> bool:
    """Return the value that a history bit has before the session's first event."""
    return bit.op in (Op.WEAK_PREVIOUS, Op.HISTORICALLY, Op.WEAK_SINCE, Op.AT_MOST)


def _delay(bit: Formula) -> int:
    """Return the number of events between a change of a bit and the event that caused it.

    `previous p` changes one event after `p`, and so does `once[1,3] p`, which is `previous once[0,2] p`.
    """
    if bit.op in (Op.PREVIOUS, Op.WEAK_PREVIOUS):
        return 1 if bit.bounds is None else bit.bounds[0]
    return bit.bounds[0] if bit.op in (Op.ONCE, Op.HISTORICALLY) and bit.bounds is not None else 0


def _future_free(formula: Formula, bits: Collection[str]) -> list[Formula]:
    """Return the maximal future-free subformulas that depend on past events."""
    if has_future(formula):
        return [part for arg in formula.args for part in _future_free(arg, bits)]
    return [] if is_propositional(formula, bits) else [formula]


def _reasons(formula: Formula, value: ValueOf, bits: Collection[str]) -> list[Formula]:
    """Return the outermost history bits that give a future-free formula its value."""
    if formula.op in PAST or (formula.op is Op.PROP and formula.name in bits):
        return [formula]
    # A letter has the values of maximal propositional formulas, and not of their parts.
    if is_propositional(formula, bits):
        return []
    values = [value(arg) for arg in formula.args]
    match formula.op:
        case Op.AND | Op.OR:
            # One false operand decides `and`, one true operand `or`; otherwise all of them do.
            decisive = formula.op is Op.OR
            chosen = [a for a, v in zip(formula.args, values, strict=True) if v is decisive] or formula.args
        case Op.IMPLIES:
            left, right = formula.args
            holds = ([left] if not values[0] else []) + ([right] if values[1] else [])
            chosen = holds or [left, right]
        case _:
            chosen = formula.args
    return [bit for arg in chosen for bit in _reasons(arg, value, bits)]
