"""The witnesses in verdict records against the replay of each run's own events by formulas."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import Any

import msgspec
import orjson
from tracline.rules.engine.judge import JUDGED_COLUMNS, CompiledRules, compile_rule_set, judge
from tracline.rules.engine.records import records
from tracline.rules.engine.sessions import Clock
from tracline.rules.labels.missing import NOTHING
from tracline.rules.model.formula import Formula, evaluate_boolean
from tracline.rules.model.rule import Rule
from tracline.rules.reference.slow_witness import witnesses_slowly
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import event_frame
from tracline.schemas.records.verdict_record import VerdictRecord
from tracline.schemas.time import rfc3339

from ..support.conversations.rule_sessions import random_sessions, rule_set

COMPILED = compile_rule_set(rule_set())


def true_at(event: Event) -> frozenset[str]:
    """Return the propositions that are true at an event."""
    args: dict[str, Any] = orjson.loads(event.args or "{}")
    assert event.tool is not None
    return frozenset(name for name in "pqrs" if args.get(name) or name in event.tool[1:])


def slice_of(rule: Rule, event: Event) -> str | None:
    """Return the slice value that an event carries for a rule."""
    if rule.for_each is None:
        return None
    if rule.for_each.paths[0].field == "call_id":
        return event.call_id
    value = orjson.loads(event.args or "{}").get("k")
    return None if value is None else str(value)


def steps_on(rule: Rule, event: Event) -> bool:
    """Return whether the rule sees the event."""
    steps: Formula | None = rule.steps
    return steps is None or evaluate_boolean(steps, true_at(event))


def expected(
    compiled: CompiledRules, rule: Rule, record: VerdictRecord, events: list[Event]
) -> dict[str, Any]:
    """Return the witness of a record, from a replay of the events of its run."""
    machine = compiled.machines[compiled.rules.index(rule)]
    run = [
        event for event in events if steps_on(rule, event) and slice_of(rule, event) in (None, record.slice)
    ]
    at = next(index for index, event in enumerate(run) if event.event_id == record.event_id)
    found = witnesses_slowly(rule, machine, [true_at(event) for event in run], [at])[at]
    shown = [
        {
            "event_id": run[event.place].event_id,
            "seq": run[event.place].seq,
            "true": event.true,
            "residual": event.residual,
        }
        for event in found.events
    ]
    history = [
        {
            "event_id": None if bit.place is None else run[bit.place].event_id,
            "seq": None if bit.place is None else run[bit.place].seq,
            "formula": bit.formula,
            "value": bit.value,
        }
        for bit in found.history
    ]
    return {"events": tuple(shown), "history": tuple(history), "truncated": found.truncated}


def test_every_witness_is_that_of_the_runs_own_events() -> None:
    """Rules of every kind over 20 generated batches: each record's witness is that of a slow replay."""
    count = Counter[str]()
    for seed in range(20):
        events = random_sessions(Random(seed), sessions=5, events=30)
        frame = event_frame(events)
        labelled = COMPILED.labeler.label_few(frame, keep=JUDGED_COLUMNS).with_columns(NOTHING)
        judged = judge(COMPILED, labelled, Clock(last=1 << 62, idle=0), satisfied=True)
        occurrences = defaultdict[tuple[str, str], list[Event]](list)
        for event in events:
            if event.kind is not Kind.END:
                occurrences[event.session_id, rfc3339(event.occurrence)].append(event)
        for record in records(COMPILED, judged):
            rule = next(rule for rule in COMPILED.rules if rule.id == record.rule)
            count[record.verdict] += 1
            if record.verdict == "unjudged":
                assert record.witness is None
                continue
            run = occurrences[record.session_id, record.occurrence]
            assert msgspec.to_builtins(record.witness) == expected(COMPILED, rule, record, run), (
                seed,
                record,
            )
    print(f"records: {dict(count)}")
    assert min(count[name] for name in ("violated", "satisfied", "unjudged", "held", "unmet")) >= 200, count
