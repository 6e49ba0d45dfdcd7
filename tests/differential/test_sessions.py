"""A rule over a session, with `steps`, slices and unknowns: the plain stepper against the reference."""

from __future__ import annotations

from collections import Counter
from random import Random

from tracline.rules.compiler.compile import compile_rule
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import Formula, names
from tracline.rules.model.machine import Machine
from tracline.rules.model.predicate import Literal, Path
from tracline.rules.model.rule import Rule, SliceKey
from tracline.rules.reference.semantics import LabelledEvent, judge_session, kleene
from tracline.rules.reference.slow_stepper import SteppedEvent, judge_slowly
from tracline.schemas.verdict import Recover, Verdict

from .formulas import sample_of
from .samples import Sample, samples

STEPS = (None, None, "p or q", "r", "not r", "r -> p")
APPLIES_TO = (None, None, "q", "once p")
KEY = SliceKey((Path("args", ("order_id",)),), joint=False)


def _rule(sample: Sample, random: Random) -> Rule:
    """Return a rule with that formula and randomly chosen everything else."""
    steps, applies_to = random.choice(STEPS), random.choice(APPLIES_TO)
    return Rule(
        pack="pack",
        id="rule",
        title="",
        formula=sample.formula,
        text="",
        propositions={name: Literal(True) for name in "pqr"},
        transitions=sample.transitions,
        recover=random.choice(list(Recover)),
        for_each=random.choice((None, KEY)),
        steps=parse_formula(steps) if steps else None,
        applies_to=parse_formula(applies_to) if applies_to else None,
    )


def _session(random: Random) -> list[LabelledEvent]:
    unknowns = random.choice((0.0, 0.0, 0.05))
    return [
        LabelledEvent(
            true=frozenset(name for name in "pqr" if random.random() < 0.4),
            unknown=frozenset(name for name in "pqr" if random.random() < unknowns),
            slice=random.choice((None, None, "a", "b", "c")),
            slice_unknown=random.random() < unknowns / 2,
        )
        for _ in range(random.randint(0, 9))
    ]


def _as_stepped(rule: Rule, event: LabelledEvent) -> SteppedEvent:
    """Return the event as the stepper reads it, with the value of `steps` and of what is unknown."""
    asked: list[Formula] = [rule.formula, *rule.transitions.values()]
    asked += [rule.applies_to] if rule.applies_to else []
    return SteppedEvent(
        true=event.true,
        steps=kleene(rule.steps, event) if rule.steps else True,
        unknown=any(not event.unknown.isdisjoint(names(formula)) for formula in asked),
        value=event.slice,
        value_unknown=event.slice_unknown,
    )


def test_the_stepper_finds_in_sessions_what_the_reference_finds() -> None:
    """Findings, their events and slices, closings and whether the rule applies agree on 6,400 sessions."""
    random, counts = Random(7), Counter[str]()
    pool = [*map(Sample, sample_of(4, 250, seed=3)), *random.sample(samples(), 150)]
    for sample in pool:
        for _ in range(2):
            rule = _rule(sample, random)
            machine = compile_rule(rule)
            for _ in range(8):
                events = _session(random)
                closed = random.random() < 0.8
                _compare(rule, machine, events, closed, counts)
    print(f"sessions: {counts['sessions']}; findings: {dict(counts)}")
    assert counts["sessions"] == 6_400
    assert min(counts[kind] for kind in ("violated", "satisfied", "held", "unmet", "unjudged")) >= 300, counts


def _compare(
    rule: Rule, machine: Machine, events: list[LabelledEvent], closed: bool, counts: Counter[str]
) -> None:
    expected = judge_session(rule, events, closed=closed)
    found = judge_slowly(machine, [_as_stepped(rule, e) for e in events], sliced=rule.for_each is not None)
    findings = found.findings + (found.closing if closed else ())
    verdicts = {(f.at, f.slice, f.verdict) for f in findings}
    meant = {(f.event, f.slice if f.sliced else None, f.verdict) for f in expected.findings}
    assert verdicts == meant, (str(rule.formula), rule, events)
    assert len(findings) == len(expected.findings)
    applies = found.applies or any(f.verdict is Verdict.VIOLATED for f in findings)
    assert applies == (expected.applies is not None), (rule, events)
    counts.update(["sessions", *(f.verdict for f in findings)])
