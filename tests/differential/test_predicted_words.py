"""Risks of all small rules: every word of up to eight events, judged by the definitions of verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from tracline.predict.chain.learned import Counted
from tracline.predict.chain.steps import StepTable
from tracline.predict.counting.watched_rules import watch
from tracline.predict.estimation.options import EstimateOptions
from tracline.predict.risk.rule_risks import RiskOptions, RuleRisks, rule_risks
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.language.parse import parse_formula, parse_predicate
from tracline.rules.model.formula import Formula
from tracline.rules.model.predicate import Path
from tracline.rules.model.printer import to_text
from tracline.rules.model.rule import Rule, RuleSet, SliceKey
from tracline.schemas.verdict import Recover, Verdict

from ..support.chains.counts import counted_of
from ..support.formulas import is_accepted, of_size
from .tables import CODES, Remembering, Runs, runs
from .words import LETTERS, Words

WITHIN, WITHIN_LATER = 8, 5
"""Events of the words after the start, and of those after another context."""
ALPHA = 0.5
PREDICATES = {name: parse_predicate(f'text contains "{name}"') for name in ("p", "q")}
PARTS = {"plain": 5, "steps": 15, "sliced": 15}
"""Each run has one formula of so many with each kind of rule; the exhaustive set has all of them."""
CHUNK = 15
"""Rules compiled together: a table of letters is one of all rules."""

Array = Any


@dataclass(frozen=True)
class Symbol:
    """A symbol of a user's message: the number of its letter, and whether it carries the slice's value."""

    letter: int
    is_own: bool

    @property
    def text(self) -> str:
        """Return the text of the symbol."""
        return "user:" + ",".join(sorted(LETTERS[self.letter])) + "+own" * self.is_own


def symbols_of(kind: str, random: Random) -> list[Symbol]:
    """Return three symbols: those that pass `steps`, three of the four letters, or some with the value."""
    if kind == "steps":
        return [Symbol(letter, is_own=False) for letter in (1, 2, 3)]
    chosen = random.sample(range(len(LETTERS)), 3)
    owns = [True, False, random.random() < 0.5] if kind == "sliced" else [False] * 3
    return [Symbol(letter, is_own) for letter, is_own in zip(chosen, owns, strict=True)]


def rule_of(formula: Formula, recover: Recover, kind: str, number: int) -> Rule:
    """Return the rule of a formula."""
    return Rule(
        "set",
        f"r{number}",
        "",
        formula,
        to_text(formula),
        PREDICATES,
        recover=recover,
        for_each=SliceKey((Path("call_id"),), joint=False) if kind == "sliced" else None,
        steps=parse_formula("p or q") if kind == "steps" else None,
    )


def small_formulas() -> list[Formula]:
    """Return the accepted formulas of up to three nodes."""
    return [formula for nodes in (1, 2, 3) for formula in of_size(nodes) if is_accepted(formula)]


def random_chain(steps: StepTable, symbols: int, random: Random) -> Counted:
    """Return random counts of the contexts that sequences come to; some have none."""
    transitions: dict[tuple[int, int, int], int] = {}
    waiting, known = [(symbols, 0)], {(symbols, 0)}
    while waiting:
        symbol, row = waiting.pop()
        for following in range(symbols + 1):
            if symbol == symbols or random.random() < 0.7:
                transitions[symbol, row, following] = random.randint(1, 9)
        new = {(w, int(steps.next[row, w])) for w in range(symbols)} - known
        waiting += sorted(new)
        known |= new
    return counted_of(steps, symbols, transitions)


@dataclass(frozen=True)
class Oracle:
    """The definitions of one rule over its symbols, and the machine, which only names the contexts."""

    formula: Formula
    reference: Runs
    machine: Array
    symbols: Sequence[Symbol]
    sliced: bool
    shares: Array
    """The probability of the next symbol by last symbol, machine's state and begun slice; the end is last."""

    def risks(self, history: Sequence[int], within: int) -> list[float]:
        """Return the risk within 1, 2, ... events after the symbols of `history`, by all words."""
        letters = np.array([symbol.letter for symbol in self.symbols])
        is_own = np.array([symbol.is_own for symbol in self.symbols])
        size = len(self.symbols)
        run, state, start = (np.zeros(1, dtype=np.int64) for _ in range(3))
        last, begun = np.full(1, size), np.zeros(1, dtype=bool)
        trace, chance = np.empty((0, 1), dtype=np.int64), np.ones(1)
        found, total = list[float](), 0.0
        for place in range(len(history) + within):
            taken = np.array(history[place : place + 1] or range(size))
            is_history = place < len(history)
            if not is_history:
                row = self.shares[last, state, begun.astype(np.int64)]
                unmet = self._unmet(trace, run, start, begun)
                total += float((chance * row[:, size] * unmet).sum())
                chance = (chance[:, None] * row[:, taken]).reshape(-1)
            before, state, start, begun = (np.repeat(each, len(taken)) for each in (run, state, start, begun))
            last = np.tile(taken, len(trace[0]) if place else 1)
            letter = letters[last]
            run, state = self.reference.next[before, letter], self.machine[state, letter]
            trace = np.concatenate([np.repeat(trace, len(taken), axis=1), letter[None, :]])
            start = np.where(self.reference.fresh[run], place + 1, start)
            begun |= is_own[last]
            if not is_history:
                violated = self.reference.verdict[before, letter] == CODES[Verdict.VIOLATED]
                violated &= ~self.reference.final[before]
                total += float(chance[violated].sum())
                chance = np.where(violated, 0.0, chance)
                found.append(total)
        return found

    def _unmet(self, trace: Array, run: Array, start: Array, begun: Array) -> Array:
        """Return for each word whether its close is a verdict against the agent."""
        length, count = trace.shape
        reference = self.reference
        is_open = ~(reference.final[run] | reference.fresh[run] | reference.held[run])
        if not length or not is_open.any():
            return np.zeros(count, dtype=bool)
        labels = {"p": trace & 1 > 0, "q": trace & 2 > 0}
        truth = Words(labels, length, None, np.ones(count, bool)).truth(self.formula, {})
        unmet = is_open & ~truth[np.minimum(start, length - 1), np.arange(count)]
        return unmet & begun if self.sliced else unmet


@cache
def meaning_of(formula: Formula) -> Remembering:
    """Return the reference of a formula."""
    return Remembering(formula)


def oracle_of(rule: Rule, counted: Counted, symbols: Sequence[Symbol]) -> Oracle:
    """Return the definitions of a rule, with the smoothed shares of the counts."""
    machine, steps, size = compile_rule(rule), counted.steps, len(symbols)
    table = [[machine.step(s, machine.word(label))[0] for label in LETTERS] for s in range(len(machine.next))]
    counts = np.zeros((size + 1, len(table), 2, size + 1))
    for context, following, count in zip(
        counted.counts.contexts, counted.counts.nexts, counted.counts.counts, strict=True
    ):
        row = counted.contexts.states[context]
        begun = [1] if steps.memory[row] == "+own" else [0] if "+own" in steps.memory else [0, 1]
        counts[counted.contexts.symbols[context], steps.states[row], begun, following] += count
    shares = (counts + ALPHA) / (counts.sum(axis=-1, keepdims=True) + ALPHA * (size + 1))
    reference = runs(meaning_of(rule.formula), rule.recover)
    return Oracle(rule.formula, reference, np.array(table), symbols, rule.for_each is not None, shares)


def histories(steps: StepTable, size: int, random: Random) -> Iterator[tuple[list[int], tuple[int, int]]]:
    """Yield no event and some events, each with the symbol and the row after them."""
    yield [], (size, 0)
    events = [random.randrange(size) for _ in range(random.randint(1, 3))]
    row = 0
    for symbol in events:
        row = int(steps.next[row, symbol])
    yield events, (events[-1], row)


def risk_at(found: RuleRisks, key: tuple[int, int]) -> Array:
    """Return the risks of the context of a symbol and a row by horizon."""
    for contexts, values in ((found.counted.contexts, found.table.values), (found.others, found.other_risks)):
        for place in np.flatnonzero((contexts.symbols == key[0]) & (contexts.states == key[1])):
            return values[place]
    raise AssertionError(key)


def stepped(
    rules: Sequence[tuple[Formula, Recover]], kind: str, random: Random
) -> Iterator[tuple[Rule, list[Symbol], StepTable]]:
    """Yield the rules with random symbols and the product's step table over them."""
    for first in range(0, len(rules), CHUNK):
        chunk = rules[first : first + CHUNK]
        rule_set = RuleSet(tuple(rule_of(*each, kind, number) for number, each in enumerate(chunk)), {})
        watched = watch(rule_set)
        for number, rule in enumerate(watched.rules):
            symbols = symbols_of(kind, random)
            yield rule, symbols, watched.step_table(number, [symbol.text for symbol in symbols])


def compare(rules: Sequence[tuple[Formula, Recover]], kind: str, seed: int) -> tuple[int, int]:
    """Compare the risks of rules of one kind; return the risks compared, and those between 0 and 1."""
    random = Random(seed)
    compared = between = 0
    for rule, symbols, steps in stepped(rules, kind, random):
        counted = random_chain(steps, len(symbols), random)
        horizons = (*range(1, WITHIN + 1), None)
        found = rule_risks(counted, RiskOptions(horizons, EstimateOptions(ALPHA)))
        oracle = oracle_of(rule, counted, symbols)
        for history, key in histories(steps, len(symbols), random):
            risks = risk_at(found, key)
            expected = oracle.risks(history, WITHIN_LATER if history else WITHIN)
            assert np.isnan(risks).any() == bool(steps.finals[key[1]])
            risks = np.nan_to_num(risks)
            assert risks[: len(expected)] == pytest.approx(expected, abs=1e-9), (rule.text, rule.recover)
            assert (np.diff(risks) >= -1e-9).all()
            compared += len(expected)
            between += sum(0.001 < risk < 0.999 for risk in expected)
    return compared, between


@pytest.mark.parametrize("kind", PARTS)
def test_risks_of_a_part_of_the_rules_are_those_of_all_words(kind: str) -> None:
    """Of some formulas of up to three nodes with every way of recovering, from the start and later."""
    rules = list(product(small_formulas()[:: PARTS[kind]], Recover))
    compared, between = compare(rules, kind, seed=1)
    print(f"risks = all words: {len(rules)} rules, {kind}, {compared} risks, {between} between 0 and 1")
    assert compared == len(rules) * (WITHIN + WITHIN_LATER)
    assert between > compared // 3


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", PARTS)
def test_risks_of_every_rule_are_those_of_all_words(kind: str) -> None:
    """Of every formula of up to three nodes with every way of recovering."""
    rules = list(product(small_formulas(), Recover))
    compared, between = compare(rules, kind, seed=2)
    print(f"risks = all words: {len(rules)} rules, {kind}, {compared} risks, {between} between 0 and 1")
    assert compared == len(rules) * (WITHIN + WITHIN_LATER) > 13_000
