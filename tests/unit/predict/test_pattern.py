"""Probabilities of patterns over the coming verdicts, against every continuation of small chains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from tracline.predict.chain.contexts import Contexts
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.steps import (
    CUT_STEP,
    HELD_CLOSING,
    OPEN_CLOSING,
    PENDING_STEP,
    SATISFIED_STEP,
    UNMET_CLOSING,
    VIOLATED_STEP,
)
from tracline.predict.error import PredictError
from tracline.predict.estimation.expectation import NextSymbolChain, next_probabilities
from tracline.predict.estimation.nested import NestedEstimate, nested
from tracline.predict.estimation.options import EstimateOptions, estimated
from tracline.predict.risk.pattern import PatternSolver, read_pattern
from tracline.predict.risk.solve import RiskSolver
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import has_future, has_past
from tracline.rules.model.printer import to_text
from tracline.rules.model.problem import RuleError
from tracline.rules.reference.semantics import holds

from ...support.chains.counts import random_counted
from ...support.formulas import is_accepted, of_size

PATTERNS = (
    "violated",
    "satisfied",
    "eventually (violated or unmet)",
    "eventually held",
    "violated and next eventually violated",
    "eventually (violated and next eventually (violated or unmet))",
    "always not satisfied",
    "always (violated -> eventually satisfied)",
    "(not violated) until satisfied",
    "next weak_next unmet",
    "next[2] (satisfied or held)",
    "once violated",
    "eventually (violated and once satisfied)",
    "always (violated -> previous satisfied)",
)


def any_verdicts(seed: int) -> Counted:
    """Return random counts of a random machine with every verdict, and a last row where the rule stopped."""
    rng = np.random.default_rng(seed)
    counted = random_counted(rng)
    steps = counted.steps
    codes = [PENDING_STEP, PENDING_STEP, VIOLATED_STEP, SATISFIED_STEP, *([CUT_STEP] if seed % 2 else [])]
    verdicts = rng.choice(codes, steps.verdicts.shape).astype(np.uint8)
    following, closings = steps.next.copy(), rng.integers(0, 4, len(steps.closings)).astype(np.uint8)
    following[-1], verdicts[-1], closings[-1] = len(following) - 1, PENDING_STEP, OPEN_CLOSING
    finals = np.arange(len(closings)) == len(closings) - 1
    # The counts of rows that the changed machine does not come to matter to nobody.
    return replace(
        counted, steps=replace(steps, next=following, verdicts=verdicts, closings=closings, finals=finals)
    )


def estimate_of(counted: Counted, kind: str) -> NestedEstimate:
    """Return an estimate; that of frequencies has contexts that nothing follows."""
    return nested(counted) if kind == "nested" else estimated(counted, EstimateOptions(alpha=0.0))


parsed = cache(parse_formula)


@cache
def is_true(pattern: str, word: tuple[frozenset[str], ...]) -> bool:
    """Return whether a pattern is true on a word, by the definitions; one of the past at every step."""
    formula = parsed(pattern)
    steps = range(1, len(word) + 1) if has_past(formula) and not has_future(formula) else (1,)
    return all(holds(formula, word, step) for step in steps)


Words = dict[tuple[frozenset[str], ...], float]


def words_after(counted: Counted, estimate: NestedEstimate, symbol: int, row: int, events: int) -> Words:
    """Return the words of all continuations of at most so many events, each with its probability."""
    steps, boundary = counted.steps, counted.symbols.boundary
    names = {VIOLATED_STEP: ["violated"], SATISFIED_STEP: ["satisfied"]}
    closes = {UNMET_CLOSING: ["unmet"], HELD_CLOSING: ["held"]}
    found: Words = {}

    def add(word: Sequence[frozenset[str]], probability: float) -> None:
        found[tuple(word)] = found.get(tuple(word), 0.0) + probability

    def go(symbol: int, row: int, word: list[frozenset[str]], probability: float) -> None:
        if len(word) == events:
            add(word, probability)
            return
        at = Contexts(*(np.array([each], dtype=np.int32) for each in (0, symbol, row)))
        shares: list[float] = next_probabilities(counted, estimate, at)[0].tolist()
        if not any(shares):
            add([*word, *[frozenset[str]()] * (events - len(word))], probability)
        for following, share in enumerate(shares):
            if share and following == boundary:
                add([*word, frozenset(closes.get(int(steps.closings[row]), []))], probability * share)
            elif share:
                label = frozenset(names.get(int(steps.verdicts[row, following]), []))
                go(following, int(steps.next[row, following]), [*word, label], probability * share)

    go(symbol, row, [], 1.0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nested", "frequencies"])
@pytest.mark.parametrize("seed", range(4))
def test_a_pattern_has_the_probability_of_the_continuations_that_make_it_true(seed: int, kind: str) -> None:
    """Within 1 to 3 events, at every pair of a symbol and a row; the close is an event and ends the word."""
    counted = any_verdicts(seed)
    estimate = estimate_of(counted, kind)
    chain = NextSymbolChain(counted, estimate)
    for events in (1, 2, 3):
        solved = {
            text: PatternSolver(counted, chain, read_pattern(text)).within(events)[0] for text in PATTERNS
        }
        for symbol in range(chain.width):
            for row in range(chain.rows):
                words = words_after(counted, estimate, symbol, row, events)
                for text, values in solved.items():
                    expected = sum(share for word, share in words.items() if is_true(text, word))
                    assert values[0, symbol, row] == pytest.approx(expected, abs=1e-12), (text, events)


@pytest.mark.slow
def test_every_small_pattern_is_read_by_the_definitions_or_refused() -> None:
    """All formulas of up to three nodes, at the end of all words of up to three verdicts."""
    labels = {0: frozenset[str](), 1: frozenset(["violated"]), 4: frozenset(["held"])}
    words = [word for length in (1, 2, 3) for word in product(labels, repeat=length)]
    read = refused = 0
    for formula in (each for nodes in (1, 2, 3) for each in of_size(nodes) if is_accepted(each)):
        text = re.sub(r"\bp\b", "violated", re.sub(r"\bq\b", "held", to_text(formula)))
        try:
            pattern = read_pattern(text)
        except RuleError as error:
            refused += error.problems[0].code == "TRL507"
            continue
        read += 1
        for word in words:
            state = 0
            for column in word:
                state = int(pattern.next[state, column])
            expected = is_true(text, tuple(labels[column] for column in word))
            assert bool(pattern.holds[state]) == expected, (text, word)
    assert refused == 43
    assert read > 300, read


@pytest.mark.parametrize("kind", ["nested", "frequencies"])
@pytest.mark.parametrize("seed", range(6))
def test_a_verdict_against_the_agent_as_a_pattern_is_the_risk(seed: int, kind: str) -> None:
    """To the last bit, at every context and several horizons."""
    counted = any_verdicts(seed)
    chain = NextSymbolChain(counted, estimate_of(counted, kind))
    solver = RiskSolver(counted, chain)
    pattern = PatternSolver(counted, chain, read_pattern("eventually (violated or unmet)"))
    for events in (1, 2, 5, 12):
        assert np.array_equal(pattern.within(events)[0], solver.within(events))


def test_a_pattern_and_its_negation_add_up_to_1() -> None:
    """Also over longer horizons than can be enumerated.

    One of the past alone must hold at every event, as a rule of the past: its negation is another pattern.
    """
    counted = any_verdicts(2)
    chain = NextSymbolChain(counted, nested(counted))
    for text in PATTERNS:
        if text == "once violated":
            continue
        both = [read_pattern(each) for each in (text, f"not ({text})")]
        first, second = (PatternSolver(counted, chain, each).within(9)[0] for each in both)
        assert first + second == pytest.approx(np.ones_like(first), abs=1e-12), text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nested", "frequencies"])
@pytest.mark.parametrize("seed", range(3))
def test_a_pattern_of_ever_is_one_of_more_events_than_any_session_has(seed: int, kind: str) -> None:
    """The word ends with the close; a context that nothing follows stays as it is."""
    counted = any_verdicts(seed)
    chain = NextSymbolChain(counted, estimate_of(counted, kind))
    for text in PATTERNS:
        pattern = PatternSolver(counted, chain, read_pattern(text))
        found, gains = pattern.within(None)
        assert found == pytest.approx(pattern.within(600)[0], abs=2e-9), text
        means = chain.expectations(gains)
        follows = chain.expectations(np.ones_like(means)) > 0
        assert means[follows] == pytest.approx(found[follows], abs=2e-9), text
    against = PatternSolver(counted, chain, read_pattern("eventually (violated or unmet)"))
    assert against.within(None)[0] == pytest.approx(RiskSolver(counted, chain).ever(), abs=2e-9)


def test_sessions_that_hardly_close_have_no_pattern_of_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number is given that is not certain."""
    monkeypatch.setattr("tracline.predict.risk.pattern.EVER_EVENTS_MAX", 3)
    counted = any_verdicts(1)
    chain = NextSymbolChain(counted, nested(counted))
    with pytest.raises(PredictError, match="sessions end too rarely") as caught:
        PatternSolver(counted, chain, read_pattern("eventually held")).within(None)
    assert caught.value.code == "TRL810"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eventually violatd", "unknown proposition `violatd`"),
        ("once eventually violated", "future"),
        ("violated and", "<pattern>:1"),
        ("eventually (violated and weak_next false)", "TRL507"),
    ],
)
def test_a_pattern_with_a_mistake_is_an_error_of_formulas(text: str, message: str) -> None:
    """With the place, a caret, and what to write."""
    with pytest.raises(RuleError) as found:
        read_pattern(text)
    assert message in str(found.value)
    assert "^" in str(found.value)


def test_a_pattern_that_makes_too_many_states_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is that of contexts, times the states of the pattern."""
    counted = any_verdicts(0)
    monkeypatch.setattr("tracline.predict.risk.pattern.NODES_MAX", 11)
    with pytest.raises(PredictError, match="TRL810 the pattern makes 36 states of p/r"):
        PatternSolver(counted, NextSymbolChain(counted, nested(counted)), read_pattern("violated"))
