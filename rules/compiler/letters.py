"""Letters: the classes of events that a rule cannot distinguish.

A rule reads its propositions only through its maximal propositional subformulas. Two words (assignments
of the propositions) with the same values of all of those are one letter. Truth tables are Python integers
with one bit per word, so that partitioning `2**16` words is a few big-integer operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..model.formula import BOOLEAN, Formula, Op, walk
from .limits import Work, exceeded


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The letters of one rule.

    `classes[letter]` is the set of the letter's words, as an integer with a bit per word. `truth[f]` is the
    set of letters, as bits too, at which the propositional formula `f` is true.
    """

    propositions: tuple[str, ...]
    classes: tuple[int, ...]
    truth: dict[Formula, int]

    def __len__(self) -> int:
        return len(self.classes)


def is_propositional(formula: Formula, bits: Iterable[str]) -> bool:
    """Return whether a formula has only propositions and Boolean operators, and no transition bits."""
    bits = frozenset(bits)
    return all(node.op in BOOLEAN and node.name not in bits for node in walk(formula))


def alphabet(formulas: Iterable[Formula], bits: Iterable[str], work: Work) -> Alphabet:
    """Return the coarsest letters that decide all maximal propositional subformulas of `formulas`."""
    bits = frozenset(bits)
    tests: dict[Formula, None] = {}
    for formula in formulas:
        _collect(formula, bits, tests)
    propositions = tuple(sorted({n.name for test in tests for n in walk(test) if n.op is Op.PROP}))
    limits = work.limits
    if len(propositions) > limits.propositions_max:
        hint = "split the rule, or name a proposition that stands for several (a in [...])"
        raise exceeded(work.rule, "propositions", limits.propositions_max, hint)
    size = 1 << len(propositions)
    everything = (1 << size) - 1
    columns = {name: _column(i, size) for i, name in enumerate(propositions)}
    tables = {test: _table(test, columns, everything) for test in tests}
    classes = [everything]
    for table in tables.values():
        work.spend(len(classes) * (1 + size // 2048))
        classes = [part for block in classes for part in (block & table, block & ~table) if part]
        if len(classes) > limits.letters_max:
            hint = "split the rule, or put propositions that only stand together into one"
            raise exceeded(work.rule, "letter classes", limits.letters_max, hint)
    truth = {
        test: sum(1 << letter for letter, block in enumerate(classes) if block & table)
        for test, table in tables.items()
    }
    return Alphabet(propositions, tuple(classes), truth)


def _collect(formula: Formula, bits: frozenset[str], tests: dict[Formula, None]) -> None:
    if is_propositional(formula, bits):
        tests[formula] = None
        return
    for arg in formula.args:
        _collect(arg, bits, tests)


def _column(index: int, size: int) -> int:
    """Return the words in which proposition `index` is true: blocks of `2**index` zeros and ones in turn."""
    block = 1 << index
    ones = ((1 << block) - 1) << block
    width = 2 * block
    while width < size:
        ones |= ones << width
        width *= 2
    return ones


def _table(formula: Formula, columns: dict[str, int], everything: int) -> int:
    """Return the words at which a propositional formula is true."""
    args = [_table(arg, columns, everything) for arg in formula.args]
    match formula.op:
        case Op.TRUE:
            return everything
        case Op.FALSE:
            return 0
        case Op.PROP:
            return columns[formula.name]
        case Op.NOT:
            return everything & ~args[0]
        case Op.AND:
            return args[0] & args[1]
        case Op.OR:
            return args[0] | args[1]
        case Op.IMPLIES:
            return everything & ~args[0] | args[1]
        case Op.IFF:
            return everything & ~(args[0] ^ args[1])
        case _:
            raise AssertionError(formula.op)


def letters_of(classes: tuple[int, ...], merged: tuple[int, ...], word_count: int) -> bytes:
    """Return the letter of every word, given the final letter of each class in `merged`."""
    letters = bytearray(word_count)
    for block, letter in zip(classes, merged, strict=True):
        while block:
            low = block & -block
            letters[low.bit_length() - 1] = letter
            block ^= low
    return bytes(letters)
