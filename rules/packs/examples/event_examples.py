"""Running examples that are events: whole sessions for rules, and single events for propositions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from msgspec.structs import replace

from ....schemas.case_events import SESSION, case_session
from ....schemas.event import Event, Kind
from ....schemas.frames.events import event_frame
from ....schemas.records.verdict_record import VerdictRecord
from ....schemas.verdict import Verdict
from ...engine.judge import JUDGED_COLUMNS, CompiledRules, compile_rule_set, judge
from ...engine.records import records
from ...engine.sessions import Clock
from ...labels.few import WORD_BITS
from ...labels.labeler import Labeler
from ...labels.missing import MISSING, missing_column
from ...model.formula import Formula, Op, evaluate_boolean
from ...model.predicate import Predicate
from ...model.rule import EventsExample, PropositionExample, Rule, RuleSet
from .label_examples import ExampleRun

_MESSAGES = (Kind.USER, Kind.ASSISTANT)
"""The kinds of events that the text of an example is tried as."""


@dataclass(frozen=True, slots=True)
class PropositionRun:
    """The result of an example of a proposition: its value, None if that is unknown."""

    example: PropositionExample
    value: bool | None

    @property
    def passed(self) -> bool:
        """Return whether the value is the expected one."""
        return self.value is self.example.expected


def run_events(rules: Sequence[Rule], cases: Mapping[EventsExample, Sequence[Event]]) -> Iterator[ExampleRun]:
    """Run every example of events through the labels and machines of its rule, rule by rule.

    `cases` has the events of each example. They are one session, which is closed after its last event. Raises
    RuleError where a rule exceeds a limit.
    """
    for rule in rules:
        pairs = (("violated", rule.examples.violated_events), ("holds", rule.examples.holds_events))
        if not any(examples for _, examples in pairs):
            continue
        compiled = compile_rule_set(RuleSet((rule,), {}))
        for expected, examples in pairs:
            labelled = len(rule.examples.violated if expected == "violated" else rule.examples.holds)
            for number, example in enumerate(examples, start=labelled + 1):
                yield _run(compiled, expected, number, example, cases[example])


def _run(
    compiled: CompiledRules, expected: str, number: int, example: EventsExample, events: Sequence[Event]
) -> ExampleRun:
    (rule,) = compiled.rules
    rows = event_frame(case_session(events)).with_columns(missing_column())
    labelled = compiled.labeler.label_few(rows, keep=(*JUDGED_COLUMNS, MISSING))
    judged = judge(compiled, labelled, Clock(last=0, idle=0), satisfied=True)
    found = list(records(compiled, judged))
    names = [name for _, name in compiled.labeler.propositions]
    answers = zip(*(_answers(labelled, bit) for bit in range(len(names))), strict=True)
    true = [frozenset(name for name, value in zip(names, row, strict=True) if value) for row in answers]
    steps = tuple(true[: len(events)]) if names else (frozenset[str](),) * len(events)
    return ExampleRun(
        rule,
        expected,
        number,
        steps,
        tuple(_verdicts(rule, steps, found)),
        _end(found),
        events=example.path,
        unjudged=next((record.why for record in found if record.verdict is Verdict.UNJUDGED), None),
    )


def _verdicts(
    rule: Rule, steps: Sequence[frozenset[str]], found: Sequence[VerdictRecord]
) -> Iterator[Verdict | None]:
    """Yield the verdict after each event: the worst of all slices, None where `steps` excludes the event."""
    at = {(record.seq, record.verdict) for record in found}
    for seq, true in enumerate(steps, start=1):
        decided = [v for v in (Verdict.UNJUDGED, Verdict.VIOLATED, Verdict.SATISFIED) if (seq, v) in at]
        if decided:
            yield decided[0]
        elif rule.steps is not None and not evaluate_boolean(rule.steps, true):
            yield None
        else:
            yield Verdict.PENDING


def _end(found: Sequence[VerdictRecord]) -> Verdict | None:
    verdicts = {record.verdict for record in found}
    return next((verdict for verdict in (Verdict.UNMET, Verdict.HELD) if verdict in verdicts), None)


# ---- propositions


def run_propositions(examples: Iterable[PropositionExample]) -> list[PropositionRun]:
    """Evaluate every example of a proposition.

    A text is tried as a message of the customer and as one of the agent: the proposition is true of it if it
    is true of one of them.
    """
    listed = list(examples)
    if not listed:
        return []
    predicates = {(example.pack, example.name): example.predicate for example in listed}
    labels = Labeler(RuleSet(tuple(_rule(*pair, predicate) for pair, predicate in predicates.items()), {}))
    events = [(place, event) for place, example in enumerate(listed) for event in _events(example)]
    placed = [
        replace(event, seq=seq, event_id=f"{seq:032x}") for seq, (_, event) in enumerate(events, start=1)
    ]
    labelled = labels.label_few(event_frame(placed))
    answers = {name: _answers(labelled, bit) for bit, name in enumerate(labels.propositions)}
    values: list[list[bool | None]] = [[] for _ in listed]
    for row, (place, _) in enumerate(events):
        example = listed[place]
        values[place].append(answers[example.pack, example.name][row])
    return [PropositionRun(example, _any(found)) for example, found in zip(listed, values, strict=True)]


def _events(example: PropositionExample) -> Iterator[Event]:
    if example.event is not None:
        yield example.event
        return
    yield from (Event(SESSION, 0, 0, 0, kind, text=example.text) for kind in _MESSAGES)


def _any(values: Sequence[bool | None]) -> bool | None:
    """Return the disjunction of answers in Kleene's logic."""
    if True in values:
        return True
    return None if None in values else False


def _rule(pack: str, name: str, predicate: Predicate) -> Rule:
    """Return a rule that uses the proposition, for its label."""
    return Rule(pack, name, name, Formula(Op.PROP, name=name), name, {name: predicate})


def _answers(labelled: pl.DataFrame, bit: int) -> list[bool | None]:
    """Return the value of a proposition at each row, None where it is unknown."""
    word, mask = bit // WORD_BITS, 1 << bit % WORD_BITS
    pairs = zip(labelled[f"t{word}"].to_list(), labelled[f"u{word}"].to_list(), strict=True)
    return [True if true & mask else None if unknown & mask else False for true, unknown in pairs]
