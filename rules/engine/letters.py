"""Letters: the letter that each rule reads at each label word.

A *word* of a rule set is one combination of true and unknown propositions at an event, packed into bits.
Archives have far fewer distinct words than rows, so letters are looked up once for each distinct word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..labels.few import WORD_BITS
from ..model.arrays import I32, I64, U8, U64, Mask
from ..model.completions import Completions
from ..model.formula import Formula, Op, names
from ..model.machine import Machine
from ..model.rule import Rule
from . import kernel, kernel_loop
from .kernel import LetterTable, Program


@dataclass(frozen=True, slots=True)
class LabelWords:
    """Distinct label words: bit `p % 64` of `true[word, p // 64]` is the truth of proposition `p`.

    `unknown` has the same layout.
    """

    true: U64
    unknown: U64

    def holds(self, proposition: int) -> Mask:
        """Return for each word whether the proposition is true."""
        return _bit(self.true, proposition)

    def is_unknown(self, proposition: int) -> Mask:
        """Return for each word whether the proposition is unknown."""
        return _bit(self.unknown, proposition)

    def true_at(self, place: int, bits: Mapping[str, int]) -> frozenset[str]:
        """Return the names of `bits`, by bit, that are true in a word."""
        return _names_at(self.true, place, bits)

    def unknown_at(self, place: int, bits: Mapping[str, int]) -> frozenset[str]:
        """Return the names of `bits`, by bit, that are unknown in a word."""
        return _names_at(self.unknown, place, bits)

    def packed(self, propositions: Sequence[int]) -> NDArray[np.int64]:
        """Return for each word the word of a machine: bit `i` is the truth of `propositions[i]`."""
        packed = np.zeros(len(self.true), dtype=np.int64)
        for place, proposition in enumerate(propositions):
            packed |= self.holds(proposition).astype(np.int64) << place
        return packed


def _bit(words: U64, proposition: int) -> Mask:
    place, bit = divmod(proposition, WORD_BITS)
    return (words[:, place] >> np.uint64(bit)) & np.uint64(1) != 0


def _names_at(words: U64, place: int, bits: Mapping[str, int]) -> frozenset[str]:
    whole = sum(int(word) << WORD_BITS * i for i, word in enumerate(words[place]))
    return frozenset(name for name, bit in bits.items() if whole >> bit & 1)


def label_words(rows: pl.DataFrame, count: int) -> tuple[LabelWords, I32]:
    """Return the distinct label words of the rows, and the number of each row's word.

    `count` is the number of columns that hold the words; without any, all rows share one empty word.
    """
    names = [f"{letter}{word}" for letter in "tu" for word in range(count)]
    if not names:
        none = np.empty((1, 0), dtype=np.uint64)
        return LabelWords(none, none), np.zeros(len(rows), dtype=np.int32)
    # Polars would ask its threads for a frame as an array, and wait for them.
    bits = np.column_stack([rows.get_column(name).to_numpy() for name in names])
    codes, firsts = kernel_loop.numbered(bits)
    return LabelWords(bits[firsts, :count], bits[firsts, count:]), codes


class Choices:
    """Numbers of the letters that an event may have, from 0 in the order in which they are first found."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._arrays: tuple[I64, U8] = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, letters: tuple[int, ...]) -> int:
        """Return the number of these letters."""
        return self._numbers.setdefault(letters, len(self._numbers))

    def arrays(self) -> tuple[I64, U8]:
        """Return `bounds` and `possible` of a letter table."""
        if len(self._arrays[0]) <= len(self._numbers):
            flat = [letter for each in self._numbers for letter in each]
            bounds = np.cumsum([0, *map(len, self._numbers)], dtype=np.int64)
            self._arrays = bounds, np.array(flat, dtype=np.uint8)
        return self._arrays


def letters(
    program: Program,
    rules: Sequence[Rule],
    machines: Sequence[Machine],
    propositions: Mapping[tuple[str, str], int],
    words: LabelWords,
    choices: Choices | None = None,
) -> LetterTable:
    """Return the letter table of the words, whose `choices` are numbered on.

    `propositions` maps each (pack, name) to its bit. A rule does not see an event where its `steps` is
    false. A rule that stops cannot judge one where `steps` is unknown, or where a proposition of its formula,
    transitions or `applies_to` is.
    """
    table = np.empty((len(words.true), program.columns), dtype=np.uint8)
    choice, stand_in = (np.zeros(table.shape, dtype=np.int32) for _ in range(2))
    choices = Choices() if choices is None else choices
    for column, number in enumerate(cast("list[int]", program.order.tolist())):
        rule, machine = rules[number], machines[number]
        bits = {name: propositions[rule.pack, name] for name in rule.propositions}
        follows = program.follow[column] != kernel.NEVER_FOLLOWS
        required = rule.propositions if follows else required_propositions(rule)
        word = words.packed([bits[name] for name in machine.propositions])
        read = np.frombuffer(machine.letters, dtype=np.uint8)[word]
        sees, unknown = _seen(rule.steps, bits, words, [bits[name] for name in required])
        table[:, column] = np.where(sees, read, program.skip[column])
        if not follows:
            table[unknown, column] = program.unknown[column]
            continue
        completions = Completions(rule, machine, int(program.skip[column]))
        for place in np.flatnonzero(unknown).tolist():
            found = completions.of(words.true_at(place, bits), words.unknown_at(place, bits))
            stand_in[place, column] = found.stand_in
            if len(found.letters) == 1:
                table[place, column] = found.letters[0]
            else:
                table[place, column] = program.follow[column]
                choice[place, column] = choices.number(found.letters)
    return LetterTable(table, choice, *choices.arrays(), stand_in)


def _seen(
    steps: Formula | None, bits: Mapping[str, int], words: LabelWords, required: Sequence[int]
) -> tuple[Mask, Mask]:
    """Return for each word whether a rule sees, or may see, its events, and whether their letter is unknown.

    It is where one of the `required` propositions is, or the value of `steps`.
    """
    unknown = np.zeros(len(words.true), dtype=np.bool_)
    for proposition in required:
        unknown |= words.is_unknown(proposition)
    if steps is None:
        return ~np.zeros_like(unknown), unknown
    true, is_open = _kleene(steps, bits, words)
    sees = true | is_open
    return sees, (unknown | is_open) & sees


def unjudged_word(program: Program, words: LabelWords) -> tuple[LabelWords, LetterTable]:
    """Return a word that no rule can judge: that of events above `EVENTS_MAX`, as wide as these words."""
    empty = np.zeros((1, words.true.shape[1]), dtype=np.uint64)
    return LabelWords(empty, empty), kernel.known_letters(program.unknown[None, :])


def required_propositions(rule: Rule) -> frozenset[str]:
    """Return the propositions that must be known where the rule steps: all but those of `steps` alone."""
    formulas = (rule.formula, rule.applies_to, *rule.transitions.values())
    used = frozenset[str]().union(*(names(formula) for formula in formulas if formula is not None))
    return used - rule.transitions.keys()


def _kleene(formula: Formula, bits: Mapping[str, int], words: LabelWords) -> tuple[Mask, Mask]:
    """Return for each word whether a Boolean formula is true, and whether it is unknown (strong Kleene)."""
    if formula.op is Op.PROP:
        unknown = words.is_unknown(bits[formula.name])
        return words.holds(bits[formula.name]) & ~unknown, unknown
    parts = [_kleene(arg, bits, words) for arg in formula.args]
    no_words = np.zeros(len(words.true), dtype=np.bool_)
    match formula.op, parts:
        case Op.NOT, [(true, unknown)]:
            return ~(true | unknown), unknown
        case Op.AND, _:
            true = np.logical_and.reduce([p for p, _ in parts])
            return true, np.logical_and.reduce([p | p_unknown for p, p_unknown in parts]) & ~true
        case Op.OR, _:
            true = np.logical_or.reduce([p for p, _ in parts])
            return true, np.logical_or.reduce([p_unknown for _, p_unknown in parts]) & ~true
        case Op.IMPLIES, [(p, p_unknown), (q, q_unknown)]:
            true = ~(p | p_unknown) | q
            return true, (p_unknown | q_unknown) & ~true
        case Op.IFF, [(p, p_unknown), (q, q_unknown)]:
            unknown = p_unknown | q_unknown
            return (p == q) & ~unknown, unknown
        case _:
            assert formula.op in (Op.TRUE, Op.FALSE), f"`steps` holds {formula.op.value}"
            return ~no_words if formula.op is Op.TRUE else no_words, no_words
