"""The explanation of sessions against the records of an audit, and against each run's own events."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from random import Random

from tracline.rules.engine.judge import JUDGED_COLUMNS, compile_rule_set, judge, label_columns
from tracline.rules.engine.records import records
from tracline.rules.engine.sessions import Clock
from tracline.rules.explanation.rule_status import assess
from tracline.rules.explanation.timeline import RunExplanation, explanations
from tracline.rules.labels.missing import NOTHING
from tracline.rules.model.formula import evaluate_boolean
from tracline.rules.model.rule import Rule
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import event_frame
from tracline.schemas.records.verdict_record import VerdictRecord
from tracline.schemas.time import parse_time
from tracline.schemas.verdict import Unknown, Verdict

from ..support.conversations.rule_sessions import random_sessions, rule_set
from .test_records import slice_of, true_at

RULES = rule_set()
COMPILED = compile_rule_set(
    replace(RULES, rules=tuple(replace(rule, unknown=Unknown.STOP) for rule in RULES.rules))
)
"""Rules that stop where something is unknown, so that each run has one trace."""

Reported = tuple[str, str | None, int, Verdict]


def reported(run: RunExplanation) -> list[Reported]:
    """Return the verdicts of a run that the engine writes, the closing one among them."""
    found = [(step.seq, step.step.verdict) for step in run.steps if step.is_reported]
    found += [] if run.close is None else [(run.steps[-1].seq, run.close)]
    return [(run.rule.id, run.slice, seq, verdict) for seq, verdict in found]


def steps_on(rule: Rule, event: Event) -> bool:
    """Return whether the rule sees the event."""
    return rule.steps is None or evaluate_boolean(rule.steps, true_at(event))


def is_of_run(run: RunExplanation, event: Event) -> bool:
    """Return whether the run sees the event."""
    is_before = run.unjudged is None or event.seq < run.unjudged
    return is_before and steps_on(run.rule, event) and slice_of(run.rule, event) in (None, run.slice)


def check_run(run: RunExplanation, events: list[Event], *, is_open: bool) -> None:
    """The steps and statuses of a run are those of its own events."""
    seen = [event for event in events if is_of_run(run, event)]
    assert [step.seq for step in run.steps] == [event.seq for event in seen]
    trace = tuple(true_at(event) for event in seen)
    is_closed = not is_open and run.unjudged is None
    wanted = assess(run.rule.formula, trace, run.rule.transitions, is_closed=is_closed)
    for part, wanted_part in zip(run.status.parts, wanted.parts, strict=True):
        assert part.node == wanted_part.node
        assert part.ends.tolist() == wanted_part.ends.tolist()
        assert part.is_open.tolist() == wanted_part.is_open.tolist()


def test_explanations_have_the_verdicts_of_an_audit() -> None:
    """Rules of every kind over generated sessions, some of them open: verdicts, closings, steps, statuses."""
    count = Counter[str]()
    for seed in range(12):
        events = random_sessions(Random(seed), sessions=5, events=30)
        events = [event for event in events if event.kind is not Kind.END or seed % 3]
        frame = event_frame(events)
        labelled = COMPILED.labeler.label_few(frame, keep=JUDGED_COLUMNS).with_columns(NOTHING)
        judged = judge(COMPILED, labelled, Clock(last=0, idle=1 << 60), satisfied=True)
        found = defaultdict[tuple[str, int], list[VerdictRecord]](list)
        begins = judged.column("occurrence", judged.sessions.bounds[:-1]).to_physical().to_list()
        ids = judged.column("session_id", judged.sessions.bounds[:-1]).to_list()
        for record in records(COMPILED, judged):
            found[record.session_id, parse_time(record.occurrence) or 0].append(record)
        labels = labelled.select("seq", *label_columns(COMPILED))[judged.order.rows]
        bounds = judged.sessions.bounds.tolist()
        for slot, is_open in enumerate(judged.sessions.open.tolist()):
            key = ids[slot], begins[slot]
            seen = [
                event
                for event in events
                if (event.session_id, event.occurrence) == key and event.kind is not Kind.END
            ]
            runs = list(
                explanations(COMPILED, labels[bounds[slot] : bounds[slot + 1]], is_closed=not is_open)
            )
            for run in runs:
                check_run(run, seen, is_open=is_open)
                count["open" if is_open else "closed"] += 1
            wanted = [
                (record.rule, record.slice, record.seq, record.verdict)
                for record in found[key]
                if record.verdict is not Verdict.UNJUDGED
            ]
            assert sorted(map(str, wanted)) == sorted(str(each) for run in runs for each in reported(run))
            unjudged = {(record.rule, record.seq) for record in found[key] if record.reason is not None}
            assert unjudged == {(run.rule.id, run.unjudged) for run in runs if run.unjudged is not None}
            count.update(record.verdict for record in found[key])
    print(dict(count))
    assert min(count[name] for name in ("violated", "satisfied", "unjudged", "held", "unmet", "open")) >= 50
