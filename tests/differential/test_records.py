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
from tracline.rules.model.formula import evaluate_boolean
from tracline.rules.model.machine import STAYS_VIOLATED, VERDICT_MASK, Machine
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


def seen_as(rule: Rule, event: Event) -> frozenset[str] | None:
    """Return the true propositions of the run of a witness at an event, None where the rule does not see it.

    Of an event whose arguments were not captured it is the first completion that the rule sees: without `q`
    and `r`, with `q`, with `r`, with both.
    """
    true, steps = true_at(event), rule.steps
    unknown = [name for name in "qr" if event.args is None and name in rule.propositions]
    for size in range(1 << len(unknown)):
        completed = true.union(name for bit, name in enumerate(unknown) if size >> bit & 1)
        if steps is None or evaluate_boolean(steps, completed):
            return completed
    return None


def expected(
    compiled: CompiledRules, rule: Rule, record: VerdictRecord, events: list[Event]
) -> dict[str, Any]:
    """Return the witness of a record, from a replay of the events of its run."""
    machine = compiled.machines[compiled.rules.index(rule)]
    run = [
        event
        for event in events
        if seen_as(rule, event) is not None and slice_of(rule, event) in (None, record.slice)
    ]
    at = next(index for index, event in enumerate(run) if event.event_id == record.event_id)
    labels = [seen_as(rule, event) or frozenset() for event in run]
    found = witnesses_slowly(rule, machine, labels, [at])[at]
    if is_decided(machine, labels[:at]):
        # Another run is decided here; this one explains no more than its event.
        found = found._replace(history=())
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


def is_decided(machine: Machine, labels: list[frozenset[str]]) -> bool:
    """Return whether a run ends in a state that repeats its verdict."""
    state = 0
    for true in labels:
        state, _ = machine.step(state, machine.word(true))
    return all(output & VERDICT_MASK >= STAYS_VIOLATED for output in machine.output[state])


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
