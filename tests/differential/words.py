"""Truth of a formula at every position of many words at once, by the recurrences of its operators.

A set of words holds one array per proposition, positions first, with one bit (or one Boolean) per word.
`tracline.rules.reference.semantics` has the quantifiers of the definitions instead; the two are compared in
`test_meaning.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from tracline.rules.model.formula import PAST, Formula, Op, has_future

Bits = Any
"""A NumPy array of Booleans, or of bytes of eight words each."""

LETTERS = (frozenset[str](), frozenset({"p"}), frozenset({"q"}), frozenset({"p", "q"}))
"""The letters of words over p and q, by number: bit 0 is p, bit 1 is q."""

DEPTH = 5
PREFIX_AHEAD = 1
LOOPS = (2, 3)
ROUNDS = 4


@dataclass(frozen=True)
class Words:
    """Words of one length. After the last position comes number `back` (from 0), or none where it is None."""

    labels: dict[str, Bits]
    size: int
    back: int | None
    ones: Bits

    def truth(self, f: Formula, known: dict[Formula, Bits]) -> Bits:
        """Return the truth of f at every position; that of its operands may be known already."""
        if f in known:
            return known[f]
        args = [self.truth(arg, known) for arg in f.args]
        match f.op:
            case Op.PROP:
                value = self.labels[f.name]
            case Op.TRUE | Op.FALSE:
                row = self.ones if f.op is Op.TRUE else ~self.ones
                value = np.broadcast_to(row, (self.size, *row.shape))
            case Op.NOT:
                value = ~args[0]
            case Op.AND:
                value = args[0] & args[1]
            case Op.OR:
                value = args[0] | args[1]
            case Op.IMPLIES:
                value = ~args[0] | args[1]
            case Op.IFF:
                value = ~(args[0] ^ args[1])
            case _ if f.bounds is not None:
                value = self._bounded(f, args[0])
            case _:
                value = self._past(f, args) if f.op in PAST else self._future(f, args)
        if self.back is not None and not has_future(
            f
        ):  # the past has settled: one more round changes nothing
            assert np.array_equal(value[self.back - 1], value[-1]), f
        return value

    def _bounded(self, f: Formula, arg: Bits) -> Bits:
        """Return a bounded operator on finite words of Booleans: any or all of the shifted operand."""
        assert self.back is None
        assert f.bounds is not None
        a, b = f.bounds
        if f.op is Op.AT_MOST:
            return np.cumsum(arg, axis=0) <= b
        weak = f.op in (Op.WEAK_NEXT, Op.ALWAYS, Op.WEAK_PREVIOUS, Op.HISTORICALLY)
        value = np.full(arg.shape, weak)
        for distance in range(a, min(b, self.size - 1) + 1):
            here, there = slice(0, self.size - distance), slice(distance, self.size)
            if f.op in PAST:
                here, there = there, here
            value[here] = (value[here] & arg[there]) if weak else (value[here] | arg[there])
        return value

    def with_bits(self, transitions: Mapping[str, Formula]) -> Words:
        """Return the words with transition bits as labels.

        Each round computes the operand of `previous` correctly for one more event; it is false at the start.
        """
        bits = {name: np.zeros((self.size, *self.ones.shape), bool) for name in transitions}
        for _ in range(self.size):
            words = replace(self, labels={**self.labels, **bits})
            bits = {name: words.truth(f, {}) for name, f in transitions.items()}
        return replace(self, labels={**self.labels, **bits})

    def _past(self, f: Formula, args: list[Bits]) -> Bits:
        weak = f.op in (Op.WEAK_PREVIOUS, Op.HISTORICALLY, Op.WEAK_SINCE)
        before = self.ones if weak else ~self.ones
        value = np.empty((self.size, *self.ones.shape), self.ones.dtype)
        for i in range(self.size):
            value[i] = _law(f.op, [arg[i] for arg in args], before)
            before = args[0][i] if f.op in (Op.PREVIOUS, Op.WEAK_PREVIOUS) else value[i]
        return value

    def _future(self, f: Formula, args: list[Bits]) -> Bits:
        weak = f.op in (Op.WEAK_NEXT, Op.ALWAYS, Op.WEAK_UNTIL, Op.RELEASE)
        after = self.ones if weak else ~self.ones
        value = np.empty((self.size, *self.ones.shape), self.ones.dtype)
        steps = f.op in (Op.NEXT, Op.WEAK_NEXT)
        # Once over a finite word; over a loop once more, starting from what the first time found at its head.
        for last in (False, True) if self.back is not None else (True,):
            if self.back is not None and (steps or last):
                after = args[0][self.back] if steps else value[self.back].copy()
            for i in range(self.size - 1, -1 if last else self.back - 1, -1):
                value[i] = _law(f.op, [arg[i] for arg in args], after)
                after = args[0][i] if steps else value[i]
        return value


def _law(op: Op, here: list[Bits], beyond: Bits) -> Bits:
    """Return an operator's value from its operands at a position and the value at the next one."""
    match op:
        case Op.NEXT | Op.WEAK_NEXT | Op.PREVIOUS | Op.WEAK_PREVIOUS:
            return beyond
        case Op.EVENTUALLY | Op.ONCE:
            return here[0] | beyond
        case Op.ALWAYS | Op.HISTORICALLY:
            return here[0] & beyond
        case Op.UNTIL | Op.WEAK_UNTIL | Op.SINCE | Op.WEAK_SINCE:
            return here[1] | (here[0] & beyond)
        case _:
            assert op in (Op.RELEASE, Op.STRONG_RELEASE)
            return here[1] & (here[0] | beyond)


def finite_words(length: int) -> Words:
    """Return all finite words of that length over p and q, the first letter the most significant."""
    letters = np.array(list(product(range(4), repeat=length)), np.uint8).reshape(4**length, length).T
    labels = {"p": (letters & 1).astype(bool), "q": (letters & 2).astype(bool)}
    return Words(labels, length, None, np.ones(4**length, bool))


def periodic_words(loop: int) -> Words:
    """Return all words `prefix loop loop ...`: DEPTH + PREFIX_AHEAD letters and a loop of that length.

    They stand in the order of their letters, so that those with a common prefix stand together. The loop is
    written out ROUNDS times for the past to settle, which `truth` asserts.
    """
    prefix = DEPTH + PREFIX_AHEAD
    index = np.arange(4 ** (prefix + loop))
    digit = [(index // 4 ** (prefix + loop - 1 - place)) % 4 for place in range(prefix + loop)]
    letters = np.array(digit[:prefix] + digit[prefix:] * ROUNDS, np.uint8)
    labels = {"p": np.packbits(letters & 1, axis=1), "q": np.packbits((letters & 2) >> 1, axis=1)}
    size = prefix + loop * ROUNDS
    return Words(labels, size, size - loop, np.full(len(index) // 8, 255, np.uint8))


def word(index: int, length: int) -> list[frozenset[str]]:
    """Return the letters of one of the finite words of a length, by its place."""
    return [LETTERS[index // 4 ** (length - 1 - place) % 4] for place in range(length)]
