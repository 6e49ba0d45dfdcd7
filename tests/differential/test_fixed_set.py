"""Table = stepper = meaning, on every formula of up to four nodes and every trace of up to five events."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import product
from math import log
from random import Random
from typing import Any

import numpy as np
import pytest
from tracline.rules.compiler.compile import compile_formula
from tracline.rules.engine import kernel
from tracline.rules.engine.closing import close_sessions
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import Formula
from tracline.rules.model.machine import APPLIES, STAYS_VIOLATED, VERDICT_MASK, VERDICTS, Machine
from tracline.rules.model.printer import to_text
from tracline.rules.model.problem import RuleError
from tracline.rules.reference.ltl3 import Meaning
from tracline.rules.reference.semantics import applies_at
from tracline.schemas.verdict import Recover

from ..support.formulas import (
    ACCEPTED,
    ACCEPTED_FIVE,
    ALL,
    FIVE_NODES,
    REFUSED,
    accepted,
    fixed_set,
    is_accepted,
    of_size,
    sample_of,
)
from .samples import Sample, samples
from .tables import CODES, Remembering, Runs, by_letter, runs
from .words import DEPTH, LETTERS, finite_words, word

TRACES = sum(4**length for length in range(1, DEPTH + 1))
NONE, HELD, UNMET = CODES[None], 4, 5


def test_the_fixed_set_has_its_size() -> None:
    """There are 7,760 formulas of up to four nodes; 5,968 are accepted and 1,792 have future inside past."""
    every = list(fixed_set())
    print(f"fixed set: {len(every)} formulas, {len(accepted())} accepted; {TRACES} traces")
    assert (len(every), len(set(every)), len(accepted())) == (ALL, ALL, ACCEPTED)
    assert TRACES == 1_364


def test_future_inside_past_is_refused_and_nothing_else() -> None:
    """The text of each of the 7,760 formulas is read back as it was, or refused for future inside past."""
    refused = 0
    for formula in fixed_set():
        text = to_text(formula)
        if is_accepted(formula):
            assert parse_formula(text) == formula
        else:
            with pytest.raises(RuleError):
                parse_formula(text)
            refused += 1
    print(f"refused: {refused}")
    assert refused == REFUSED


@cache
def _finite() -> list[Any]:
    return [finite_words(length) for length in range(1, DEPTH + 1)]


@lru_cache(maxsize=32_768)  # those of the fixed set; of all with five nodes nobody asks twice
def _compiled(formula: Formula, recover: Recover, applies_to: Formula | None = None) -> Machine:
    """Return the machine of a formula without transition bits."""
    return compile_formula(formula, recover=recover, applies_to=applies_to)


def _machine_rows(machine: Machine) -> tuple[Any, Any]:
    """Return the machine's next states and outputs by the test's letters."""
    words = [machine.word(letter) for letter in LETTERS]
    steps = [[machine.step(state, word) for word in words] for state in range(len(machine.next))]
    return np.array(steps)[..., 0], np.array(steps)[..., 1]


def _reading(table: Runs, state: Any, start: Any, truth: Any) -> Any:
    """Return the closing codes of all traces of a length, from the truth at their instances' starts."""
    length = truth.shape[0]
    unbegun = table.final[state] | (start > length)
    at_start = truth[np.minimum(start, length) - 1, np.arange(len(start))]
    return np.where(unbegun, NONE, np.where(table.held[state] | at_start, HELD, UNMET))


def _compare(machine: Machine, meaning: Meaning, recover: Recover, truths: Iterable[Any]) -> int:
    """Compare a machine with the meaning after every event and at every close; how many traces.

    `truths` is the finite truth of the formula at all positions of all traces of each length.
    """

    def same(expected: Any, found: Any) -> None:
        assert np.array_equal(expected, found), _first(meaning, recover, expected, found)

    table = runs(meaning, recover)
    machine_next, machine_output = _machine_rows(machine)
    verdicts = np.array([CODES[verdict] for verdict in VERDICTS])
    closing = np.array([CODES[reading] for reading in machine.closing])
    state, place, start = np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64)
    assert closing[0] == NONE
    compared = 0
    for length, truth in enumerate(truths, 1):
        code = by_letter(machine_output, place) & VERDICT_MASK
        same(by_letter(table.verdict, state), verdicts[code])
        same(np.repeat(table.final[state], len(LETTERS)), code >= STAYS_VIOLATED)
        state, place = by_letter(table.next, state), by_letter(machine_next, place)
        start = np.where(table.fresh[state], length + 1, np.repeat(start, len(LETTERS)))
        same(_reading(table, state, start, truth), closing[place])
        compared += len(place)
    return compared


def _first(meaning: Meaning, recover: Recover, expected: Any, found: Any) -> str:
    """Return the first trace on which two arrays differ, for the message of a failure."""
    index = int(np.flatnonzero(np.asarray(expected) != np.asarray(found))[0])
    trace = ["".join(sorted(letter)) for letter in word(index, round(log(len(expected), 4)))]
    both = f"meaning {expected[index]}, machine {found[index]}"
    return f"{to_text(meaning.formula)} ({recover}) on {trace}: {both}"


def test_every_small_machine_means_what_its_formula_means() -> None:
    """Each machine gives the reference's verdict after every event of every trace, and its closing reading.

    In all three ways of recovering; that a verdict is recorded once is compared too.
    """
    compared = _compare_all(map(Sample, accepted()))
    print(f"table = stepper = meaning: {ACCEPTED} formulas x {TRACES} traces x 3 = {compared}")
    assert compared == ACCEPTED * TRACES * 3


def test_the_kernel_steps_every_small_machine_as_the_stepper_does() -> None:
    """One run of the kernel, all 5,968 rules over all 1,024 traces of five events, finds what stepping finds.

    Every finding at every event and every closing; the traces' beginnings are the shorter ones.
    """
    machines = [_compiled(formula, Recover.BOTH) for formula in accepted()]
    program = kernel.lay_out(machines, [False] * ACCEPTED, [None] * ACCEPTED)
    assert program.order.tolist() == list(range(ACCEPTED))
    letters = np.array([[m.letters[m.word(letter)] for m in machines] for letter in LETTERS], np.uint8)
    count = 4**DEPTH
    place = np.arange(count)
    rows = kernel.Rows(
        words=np.concatenate([place // 4 ** (DEPTH - 1 - at) % 4 for at in range(DEPTH)]).astype(np.int32),
        slots=np.tile(place, DEPTH).astype(np.int32),
        stamps=np.repeat(np.arange(DEPTH), count),
        slices=np.empty((count * DEPTH, 0), np.int32),
    )
    memory = kernel.remember(program, count, 0)
    judged = np.zeros((ACCEPTED, DEPTH, count), np.uint8)
    for found in kernel.judge(program, kernel.known_letters(letters), rows, memory):
        judged[found.columns, found.stamps, found.slots] = found.kinds
    ends = np.zeros((ACCEPTED, count), np.uint8)
    closed, _ = close_sessions(program, memory, place.astype(np.int32))
    ends[closed.columns, closed.slots] = closed.kinds
    for column, machine in enumerate(machines):
        following, output = _machine_rows(machine)
        state = np.zeros(1, np.int64)
        for at in range(DEPTH):
            code = by_letter(output, state) & VERDICT_MASK
            fresh = np.repeat(np.where(code < STAYS_VIOLATED, code, 0), 4 ** (DEPTH - 1 - at))
            assert np.array_equal(judged[column, at], fresh), to_text(accepted()[column])
            state = by_letter(following, state)
        closing = np.array([kernel.CLOSING.index(reading) for reading in machine.closing])
        assert np.array_equal(ends[column], closing[state]), to_text(accepted()[column])
    found_count = np.count_nonzero(judged)
    print(f"kernel = stepper: {judged.size} events, {found_count} findings, {ends.size} closings")
    assert judged.size == ACCEPTED * DEPTH * count


def _compare_all(found: Iterable[Sample]) -> int:
    """Compare machines and meaning under all three ways of recovering; how many traces in all."""
    compared = 0
    for sample in found:
        words = [plain.with_bits(sample.transitions) for plain in _finite()]
        truths = [traces.truth(sample.formula, {}) for traces in words]
        meaning = Remembering(sample.formula, sample.transitions)
        for recover in Recover:
            if sample.transitions:
                machine = compile_formula(sample.formula, transitions=sample.transitions, recover=recover)
            else:
                machine = _compiled(sample.formula, recover)
            compared += _compare(machine, meaning, recover, truths)
    return compared


def test_machines_with_bounds_counts_and_bits_mean_what_their_formulas_mean() -> None:
    """The same for the samples with step bounds, `at_most` and transition bits, in all ways of recovering."""
    compared = _compare_all(samples())
    print(f"samples with bounds, counts and bits: {len(samples())} x 3 x {TRACES} = {compared}")
    assert compared == 549 * 3 * TRACES


def test_a_sample_of_five_node_machines_mean_what_their_formulas_mean() -> None:
    """The same for 1,000 formulas of five nodes, drawn with a seed, in all ways of recovering."""
    compared = _compare_all(map(Sample, sample_of(5, 1_000, seed=11)))
    print(f"five nodes: 1000 of {FIVE_NODES} formulas x 3 x {TRACES} = {compared}")
    assert compared == 1_000 * 3 * TRACES


@pytest.mark.exhaustive
def test_all_five_node_machines_mean_what_their_formulas_mean() -> None:
    """The same for all accepted formulas of five nodes, in all ways of recovering."""
    found = [formula for formula in of_size(5) if is_accepted(formula)]
    compared = _compare_all(map(Sample, found))
    print(f"five nodes: {len(found)} formulas x 3 x {TRACES} = {compared}")
    assert len(of_size(5)) == FIVE_NODES
    assert compared == ACCEPTED_FIVE * 3 * TRACES


def test_machines_agree_on_where_their_rules_apply() -> None:
    """Machine and reference agree on the event from which a rule applies: eight traces a formula."""
    random, compared = Random(3), 0
    overriding = parse_formula("q and once p")
    for formula, recover in product(accepted(), (Recover.BOTH, Recover.NONE)):
        applies_to = overriding if random.random() < 0.2 else None
        machine = _compiled(formula, recover, applies_to)
        for _ in range(4):
            trace = random.choices(LETTERS, k=DEPTH)
            state, found = 0, list[int]()
            for at, letter in enumerate(trace, 1):
                state, output = machine.step(state, machine.word(letter))
                found += [at] if output & APPLIES else []
            expected = applies_at(formula, trace, applies_to=applies_to)
            assert found[:1] == list(expected[:1]), (to_text(formula), recover, trace)
            compared += 1
    print(f"applies: {compared} traces")
    assert compared == 8 * ACCEPTED
