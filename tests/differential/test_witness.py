"""Witnesses over trail tables against the replay of formulas, on all small rules and short sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle, pairwise, product
from random import Random

import pytest
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.compiler.limits import DEFAULT
from tracline.rules.engine import trail_loop
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import Formula
from tracline.rules.model.machine import STAYS_VIOLATED, VERDICT_MASK, Machine
from tracline.rules.model.rule import Rule
from tracline.rules.reference.slow_witness import EVENTS_MAX, witnesses_slowly
from tracline.schemas.verdict import Recover, Unknown

from ..support.formulas import accepted, sample_of
from ..support.truth.table_witness import replayed, replayed_apart, table_witnesses, trails_of
from .words import LETTERS

Labels = Sequence[frozenset[str]]

RULES = (
    ("always (p -> F[0,2] q)", {}),
    ("always (p -> previous[2] q)", {}),
    ("always (p -> once[1,2] q and not previous p)", {}),
    ("always (p -> historically[1,3] (q or previous q))", {}),
    ("always (not q since p or weak_previous[3] p)", {}),
    ("always (at_most[1] p or once q)", {}),
    ("historically (at_most[2] (p and previous q))", {}),
    ("always (p -> odd)", {"odd": "not previous odd"}),
    ("always (odd -> eventually (q and even))", {"odd": "not previous odd", "even": "not odd"}),
    ("always (p -> X (q and mode))", {"mode": "p or (previous mode and not q)"}),
    ("(once q -> p) until (at_most[1] p and q)", {}),
    ("eventually (p and previous[2] p)", {}),
    ("p and once q", {}),
    ("F[0,20] (p and q)", {}),
)
"""Rules with bounds, counts and transitions, which the formulas of few nodes do not have."""


def rule_of(formula: Formula, recover: Recover = Recover.BOTH, **more: object) -> Rule:
    """Return a rule over propositions that no predicate gives."""
    return Rule("p", "r", "", formula, "", {}, recover=recover, **more)  # pyright: ignore[reportArgumentType]


def running(machine: Machine, word: Labels) -> list[int]:
    """Return the events of the word at which the run has not ended before."""
    found, state = list[int](), 0
    for index, true in enumerate(word):
        state, output = machine.step(state, machine.word(true))
        if output & VERDICT_MASK >= STAYS_VIOLATED:
            break
        found.append(index)
    return found


def differences(rule: Rule, words: Iterable[Labels]) -> int:
    """Compare all witnesses of the words, and return their number."""
    machine, each = compile_rule(rule), list(words)
    at = [running(machine, word) for word in each]
    found = replayed_apart(trails_of(rule, machine), machine, each, at)
    for word, indices, witnesses in zip(each, at, found, strict=True):
        assert witnesses == witnesses_slowly(rule, machine, word, indices), (str(rule.formula), word)
    return sum(map(len, at))


def test_the_reference_states_the_limit_of_events() -> None:
    """The reference imports nothing of the engine, and its limit is the engine's."""
    assert EVENTS_MAX == trail_loop.WITNESS_EVENTS_MAX


@pytest.mark.parametrize("recover", list(Recover))
@pytest.mark.parametrize(("text", "transitions"), RULES, ids=[text for text, _ in RULES])
def test_rules_with_bounds_and_transitions(text: str, transitions: dict[str, str], recover: Recover) -> None:
    """All words of up to four events, and long random ones, have the witnesses of the reference."""
    bits = {name: parse_formula(right) for name, right in transitions.items()}
    rule = rule_of(parse_formula(text), recover, transitions=bits)
    random = Random(text)
    words = [word for length in range(1, 5) for word in product(LETTERS, repeat=length)]
    words += [tuple(random.choices(LETTERS, (6, 2, 2, 1), k=60)) for _ in range(20)]
    assert differences(rule, words) >= 500


def test_small_formulas_have_the_witnesses_of_the_reference() -> None:
    """All formulas of up to three nodes over all words of three events, with one way of recovering each."""
    formulas = [formula for formula in accepted() if formula.size <= 3]
    count = 0
    for formula, recover in zip(formulas, cycle(Recover), strict=False):
        count += differences(rule_of(formula, recover), product(LETTERS, repeat=3))
    print(f"witnesses: {len(formulas)} formulas, {count} events")
    assert count >= 50_000


@pytest.mark.slow
def test_larger_formulas_have_the_witnesses_of_the_reference() -> None:
    """Every third formula of four nodes, and samples of more, over random words."""
    random, count = Random(7), 0
    formulas = [formula for formula in accepted() if formula.size == 4][::3]
    for nodes in (5, 6, 8):
        formulas += sample_of(nodes, 300, seed=nodes)
    for formula in formulas:
        words = [tuple(random.choices(LETTERS, k=random.randint(1, 9))) for _ in range(12)]
        count += differences(rule_of(formula, random.choice(list(Recover))), words)
    assert count >= 100_000


def test_a_condition_of_when_the_rule_applies_changes_no_witness() -> None:
    """`applies_to` has a history of its own, which the machine has and the witness has not."""
    applies = parse_formula("once[1,2] q")
    rule = rule_of(parse_formula("always (p -> once q)"), applies_to=applies)
    assert differences(rule, product(LETTERS, repeat=4)) >= 1_000


def test_a_trail_that_is_cut_goes_on_where_it_was() -> None:
    """Replaying a session in parts with one trail gives the witnesses of replaying it at once."""
    random = Random(3)
    for text, transitions in RULES:
        bits = {name: parse_formula(right) for name, right in transitions.items()}
        rule = rule_of(parse_formula(text), transitions=bits)
        machine = compile_rule(rule)
        trails = trails_of(rule, machine)
        for _ in range(10):
            word = random.choices(LETTERS, (6, 2, 2, 1), k=80)
            cuts = sorted({0, 80, *random.choices(range(80), k=random.randint(0, 20))})
            parts = list(pairwise(cuts))
            whole = table_witnesses(rule, machine, word, range(80))
            assert replayed(trails, machine, word, parts, range(80)) == whole


@pytest.mark.parametrize(
    "text",
    [
        "at_most[900] p",
        "F[0,250] q",
        "always (p -> previous[9] q)",
        "historically[0,800] p -> q",
        "p and previous[9] q",
        "eventually (p and once[300,301] once q)",
    ],
)
@pytest.mark.parametrize("recover", list(Recover))
def test_a_rule_that_compiles_has_a_table(text: str, recover: Recover) -> None:
    """The product is a part of what the compiler searched, so rules near its limits have tables too."""
    rule = rule_of(parse_formula(text), recover, unknown=Unknown.STOP)
    trails = trails_of(rule, compile_rule(rule))
    assert len(trails.tables[0].entries) <= DEFAULT.edges_max


def test_the_loop_that_was_compared_is_compiled() -> None:
    """After a replay the loop holds machine code: the comparisons above did not run it as Python."""
    rule = rule_of(parse_formula("always p"))
    table_witnesses(rule, compile_rule(rule), [frozenset()], [0])
    assert trail_loop.replay.nopython_signatures
