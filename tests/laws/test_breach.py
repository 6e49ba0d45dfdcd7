"""The sentence on a broken rule: the propositions that it calls decisive would have averted the violation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product

from tracline.rules.compiler.compile import compile_rule
from tracline.rules.explanation.breach import decisive_propositions, explain_breach
from tracline.rules.model.formula import Formula
from tracline.rules.model.machine import VERDICT_MASK, VIOLATED, Machine
from tracline.rules.model.rule import Rule
from tracline.rules.reference.slow_witness import ReplayedWitness, witnesses_slowly
from tracline.schemas.records.verdict_record import VerdictRecord, Witness, WitnessEvent, WitnessHistory
from tracline.schemas.verdict import Severity, Verdict

from ..support.formulas import accepted, sample_of

LETTERS = tuple(frozenset(letter) for letter in ("", "p", "q", "pq"))


def rule_of(formula: Formula) -> Rule:
    """Return a rule over propositions that no predicate gives."""
    return Rule("pack", "rule", "", formula, str(formula), {})


def violations(machine: Machine, word: Sequence[Collection[str]]) -> list[int]:
    """Return the indices of the events at which the machine gives a violation."""
    found, state = list[int](), 0
    for index, true in enumerate(word):
        state, output = machine.step(state, machine.word(true))
        if output & VERDICT_MASK == VIOLATED:
            found.append(index)
    return found


def recorded(replayed: ReplayedWitness) -> Witness:
    """Return a witness as records have it: places count from 1."""
    events = tuple(
        WitnessEvent(f"e{place}", residual, place + 1, true) for place, true, residual in replayed.events
    )
    bits = tuple(
        WitnessHistory(f"e{place}", formula, None if place is None else place + 1, value)
        for formula, value, place in replayed.history
    )
    return Witness(events, bits, replayed.truncated)


def record_of(witness: Witness) -> VerdictRecord:
    """Return the record of a violation with this witness."""
    last, time = witness.events[-1], "2026-02-17T12:00:00.000000000Z"
    return VerdictRecord(
        agent=None,
        event_id=last.event_id,
        history=False,
        id="0" * 32,
        late=False,
        occurrence=time,
        pack="pack",
        rule="rule",
        rule_digest="",
        seq=last.seq,
        session_id="s",
        severity=Severity.LOW,
        slice=None,
        time=time,
        verdict=Verdict.VIOLATED,
        witness=witness,
    )


def check(formulas: Sequence[Formula], length: int) -> tuple[int, int]:
    """Change each decisive proposition of each violation; return the violations, and those with any."""
    count = explained = 0
    for formula in formulas:
        rule = rule_of(formula)
        machine = compile_rule(rule)
        for word in product(LETTERS, repeat=length):
            at = violations(machine, word)
            for index, replayed in witnesses_slowly(rule, machine, word, at).items():
                witness = recorded(replayed)
                names = decisive_propositions(rule, witness)
                count, explained = count + 1, explained + bool(names)
                sentence = explain_breach(rule, record_of(witness))
                for name in names:
                    changed = (*word[:index], word[index] ^ {name}, *word[index + 1 :])
                    assert index not in violations(machine, changed), (str(formula), word, index, name)
                    assert f"`{name}`" in sentence, sentence
    return count, explained


def test_changing_a_decisive_proposition_averts_the_violation() -> None:
    """All formulas of up to three nodes, over all words of three events."""
    count, explained = check([formula for formula in accepted() if formula.size <= 3], 3)
    print(f"violations: {count}, with a decisive proposition: {explained}")
    assert count >= 37_000
    assert explained >= 8_000


def test_larger_formulas_too() -> None:
    """A sample of formulas of four to eight nodes, over all words of three events."""
    formulas = [formula for nodes in (4, 5, 6, 8) for formula in sample_of(nodes, 40, seed=nodes)]
    count, explained = check(formulas, 3)
    print(f"violations: {count}, with a decisive proposition: {explained}")
    assert count >= 11_000
    assert explained >= 1_900
