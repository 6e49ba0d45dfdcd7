"""The reference semantics held against itself: quantifiers against recurrences, and LTL3 three ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce
from operator import and_, or_
from random import Random
from typing import Any

import numpy as np
import pytest
from tracline.rules.model.formula import Formula, has_past
from tracline.rules.reference.ltl3 import InstanceState, PastMemory
from tracline.rules.reference.semantics import holds, holds_forever

from ..support.formulas import ACCEPTED, ACCEPTED_FIVE, accepted, is_accepted, of_size, sample_of
from .samples import Sample, samples
from .tableau import Mask, Tableau, tableau
from .tables import Remembering, by_letter, instances
from .words import DEPTH, LETTERS, LOOPS, PREFIX_AHEAD, ROUNDS, Words, finite_words, periodic_words, word

INSTANCES = sum(4**length for start in range(1, DEPTH + 1) for length in range(start, DEPTH + 1))
"""Pairs of a trace of one to five letters and a position in it."""
ALL_TRUE = np.uint64(2**64 - 1)


def test_truth_on_finite_traces_follows_the_recurrences() -> None:
    """Every accepted formula is true at the same positions by quantifiers as by its operators' laws."""
    random, checked = Random(1), 0
    words = {length: finite_words(length) for length in range(1, DEPTH + 1)}
    for formula in accepted():
        length = random.randint(1, DEPTH)
        value = words[length].truth(formula, {})
        for index in random.sample(range(4**length), 4):
            trace = word(index, length)
            for at in range(1, length + 1):
                assert holds(formula, trace, at) == value[at - 1, index], (str(formula), trace, at)
                checked += 1
    print(f"finite truth: {checked} positions")
    assert checked >= 4 * ACCEPTED


def test_truth_of_bounds_counts_and_bits_follows_the_recurrences() -> None:
    """The same for the samples with step bounds, `at_most` and transition bits, on 40 traces each."""
    random, checked = Random(4), 0
    plain = finite_words(DEPTH)
    for sample in samples():
        value = plain.with_bits(sample.transitions).truth(sample.formula, {})
        for index in random.sample(range(4**DEPTH), 40):
            trace = word(index, DEPTH)
            found = [holds(sample.formula, trace, at, sample.transitions) for at in range(1, DEPTH + 1)]
            assert found == value[:, index].tolist(), (str(sample.formula), trace)
            checked += len(found)
    print(f"finite truth of samples: {checked} positions")
    assert checked == 549 * 40 * DEPTH


def test_truth_on_periodic_words_follows_the_recurrences() -> None:
    """Every accepted formula is true at the same positions of infinite words, past and all, both ways."""
    random, checked = Random(2), 0
    prefix = DEPTH + PREFIX_AHEAD
    few = {loop: _some_of(periodic_words(loop), random) for loop in LOOPS}
    for formula in accepted():
        loop = random.choice(LOOPS)
        words, letters = few[loop]
        value = words.truth(formula, {})
        for column in random.sample(range(len(letters)), 2):
            head, again = letters[column][:prefix], letters[column][prefix : prefix + loop]
            # Far out by itself: the others need little of the loop written out, and get no more.
            for positions in ([1, 2, 4, prefix, prefix + 2], [prefix + loop * ROUNDS]):
                seen = holds_forever(formula, head, again, positions)
                expected = [bool(value[at - 1, column]) for at in positions]
                assert seen == expected, (str(formula), head, again, positions)
                checked += len(seen)
    print(f"infinite truth: {checked} positions")
    assert checked == 12 * ACCEPTED


def test_ltl3_is_what_ultimately_periodic_words_show() -> None:
    """An instance is undecided exactly where some periodic words with that prefix disagree.

    For every accepted formula, every prefix of up to five letters and every position in it where an instance
    may begin; words have up to six letters before a loop of one to three. That longer ones would show nothing
    else is what `test_ltl3_is_that_of_the_tableau_of_atoms` adds.
    """
    universe = [periodic_words(loop) for loop in LOOPS]
    compared = 0
    for formula, truths in _with_truths(universe):
        table = instances(Remembering(formula))
        memory = np.zeros(1, np.int64)
        for start in range(1, DEPTH + 1):
            state = table.begin[memory]
            for length, shown in enumerate(_shown(truths, start), start):
                state = by_letter(table.next, state)
                assert np.array_equal(table.verdict[state], shown), (str(formula), start, length)
                compared += len(shown)
            memory = by_letter(table.memory_next, memory)
    print(f"LTL3 by periodic words: {compared} verdicts")
    assert compared == ACCEPTED * INSTANCES


def test_a_residual_is_the_whole_rule_again_if_no_word_separates_them() -> None:
    """After one and two events, for every formula without past: by finite words of up to five letters and by
    periodic ones the residual's truth, which is the rule's at the start, is the rule's own from here on."""
    periodic, finite = [periodic_words(2)], [finite_words(length) for length in range(2, DEPTH + 1)]
    compared = whole = 0
    for formula in accepted():
        if has_past(formula):
            continue
        meaning = Remembering(formula)
        truths = [words.truth(formula, {}) for words in (*periodic, *finite)]
        states = [meaning.begin(meaning.history.start)]
        for after in (1, 2):
            states = [meaning.step(state, letter) for state in states for letter in LETTERS]
            differ = [
                (truth[0] != truth[after]).reshape(4**after, -1).any(axis=1)
                for truth in truths
                if len(truth) > after
            ]
            same = ~np.any(differ, axis=0)
            assert [meaning.is_whole(state) for state in states] == same.tolist(), str(formula)
            compared += len(states)
            whole += int(same.sum())
    print(f"whole again: {whole} of {compared} residuals")
    assert (compared, whole) == (53_440, 24_988)


def _with_truths(universe: Sequence[Words]) -> Iterator[tuple[Formula, list[Any]]]:
    """Yield every accepted formula with its truth in each set of words."""
    known: list[dict[Formula, Any]] = [{} for _ in universe]
    for nodes in range(1, 5):
        for formula in filter(is_accepted, of_size(nodes)):
            truths = [
                words.truth(formula, truths_of) for words, truths_of in zip(universe, known, strict=True)
            ]
            if nodes <= 2:
                for truths_of, truth in zip(known, truths, strict=True):
                    truths_of[formula] = truth
            yield formula, truths


def _shown(truths: Sequence[Any], start: int) -> list[Any]:
    """LTL3 of the instance from `start` on as codes, for all prefixes of each length from `start` to DEPTH.

    What some or all words with a prefix show is what some or all of those with one more letter show.
    """
    # 64 words at a time: there are as many of each prefix of that length, or more.
    blocks = [truth[start - 1].view(np.uint64).reshape(4**DEPTH, -1) for truth in truths]
    columns = [column for block in blocks for column in block.T]
    possible, certain = reduce(or_, columns) != 0, reduce(and_, columns) == ALL_TRUE
    shown: list[Any] = []
    for _ in range(DEPTH, start - 1, -1):
        shown.insert(0, np.where(possible, 2 * certain, 1))
        possible, certain = _of_shorter(possible, or_), _of_shorter(certain, and_)
    return shown


def _of_shorter(found: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Join what was found for the four prefixes that continue each shorter one."""
    return reduce(join, (found[letter::4] for letter in range(4)))


def _some_of(words: Words, random: Random) -> tuple[Words, list[list[frozenset[str]]]]:
    """64 of the words, a Boolean each, and their letters."""
    columns = random.sample(range(8 * len(words.ones)), 64)
    labels = {
        name: np.unpackbits(bits, axis=1).astype(bool)[:, columns] for name, bits in words.labels.items()
    }
    numbers = labels["p"] + 2 * labels["q"]
    letters = [[LETTERS[number] for number in column] for column in numbers.T]
    return Words(labels, words.size, words.back, np.ones(64, bool)), letters


def _agree(sample: Sample) -> int:
    """Compare the reference's LTL3 with the tableau's on all prefixes of all lengths; how many states."""
    meaning = Remembering(sample.formula, sample.transitions)
    atoms = tableau(sample.formula, LETTERS, sample.transitions)
    after = cache(atoms.after)
    before: list[tuple[PastMemory, Mask | None]] = [(meaning.history.start, None)]
    pairs: list[tuple[InstanceState, Mask | None, Mask | None]] = []
    for memory, here in before:  # every way in which a session may reach the start of an instance
        for letter in LETTERS:
            there = _next(atoms, here, letter)
            reached = meaning.history.after(memory, letter), there
            if reached not in before:
                before.append(reached)
            begun = meaning.step(meaning.begin(memory), letter)
            pairs.append((begun, there & atoms.true, there & ~atoms.true))
    seen = set(pairs)
    for state, holding, failing in pairs:
        assert meaning.verdict(state) is atoms.verdict(holding, failing), (str(sample.formula), state)
        for letter in LETTERS:
            pair = (
                meaning.step(state, letter),
                after(holding, letter),
                after(failing, letter),
            )
            if pair not in seen:
                seen.add(pair)
                pairs.append(pair)
    return len(seen)


def _next(atoms: Tableau, here: Mask | None, letter: frozenset[str]) -> Mask:
    return atoms.first(letter) if here is None else atoms.after(here, letter)


def test_ltl3_is_that_of_the_tableau_of_atoms() -> None:
    """On traces of any length the reference's verdicts are those of an automaton built another way.

    For every accepted formula of the fixed set and every position where an instance may begin: the product of
    the two is explored to its end.
    """
    states = sum(_agree(Sample(formula)) for formula in accepted())
    print(f"LTL3 by the tableau of atoms: {len(accepted())} formulas, {states} joint states")
    assert len(accepted()) == ACCEPTED


def test_ltl3_of_bounds_counts_and_bits_is_that_of_the_tableau_of_atoms() -> None:
    """The same for the samples with step bounds, `at_most` and transition bits."""
    states = sum(map(_agree, samples()))
    print(f"LTL3 by the tableau of atoms: {len(samples())} samples, {states} joint states")
    assert len(samples()) == 549


def test_ltl3_of_five_nodes_is_that_of_the_tableau_of_atoms() -> None:
    """The same for 500 formulas of five nodes, drawn with a seed."""
    found = sample_of(5, 500, seed=5)
    states = sum(_agree(Sample(formula)) for formula in found)
    print(f"LTL3 by the tableau of atoms: {len(found)} formulas of five nodes, {states} joint states")
    assert len(found) == 500


@pytest.mark.exhaustive
def test_ltl3_of_all_five_nodes_is_that_of_the_tableau_of_atoms() -> None:
    """The same for all accepted formulas of five nodes."""
    found = list(filter(is_accepted, of_size(5)))
    states = sum(_agree(Sample(formula)) for formula in found)
    print(f"LTL3 by the tableau of atoms: {len(found)} formulas of five nodes, {states} joint states")
    assert len(found) == ACCEPTED_FIVE
