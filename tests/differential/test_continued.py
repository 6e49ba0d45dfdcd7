"""Judging that continues from carried state against judging whole sessions at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from random import Random

import msgspec
import numpy as np
import polars as pl
import pytest
from tracline.rules.engine import kernel
from tracline.rules.engine.judge import (
    JUDGED_COLUMNS,
    CompiledRules,
    Judged,
    compile_rule_set,
    judge,
    label_columns,
)
from tracline.rules.engine.records import records
from tracline.rules.engine.sessions import Clock
from tracline.rules.engine.status import applied_at, first_breaches, unjudged_findings
from tracline.rules.incremental import word_letters
from tracline.rules.incremental.carried import decode_carried, encode_carried, program_digest
from tracline.rules.incremental.carry_layout import CarryLayout
from tracline.rules.incremental.continue_judging import BatchOutcome, continue_judging
from tracline.rules.incremental.word_letters import WordLetters
from tracline.rules.labels.labelled_rows import LabelledRows, ListedEvents
from tracline.rules.labels.missing import MISSING, missing_column
from tracline.rules.model.rule import stopping
from tracline.schemas.event import Event, Kind, end_event
from tracline.schemas.frames.events import event_frame
from tracline.schemas.records.verdict_record import encode_verdict

from ..support.conversations.rule_sessions import random_session, random_sessions, rule_set

COMPILED = compile_rule_set(rule_set())
OPEN = Clock(last=-(1 << 63), idle=0)
"""A time at which only an `end` row closes an occurrence."""

Change = tuple[str, str, int, int]
"""A kind of change, session, occurrence and rule."""
Label = Callable[[CompiledRules, Sequence[Event]], LabelledRows]
"""A function that labels a batch of events."""


def labelled(compiled: CompiledRules, events: Sequence[Event]) -> pl.DataFrame:
    """Return the events as judging takes them."""
    frame = event_frame(events).with_columns(missing_column())
    names = (*JUDGED_COLUMNS, *label_columns(compiled), MISSING)
    return compiled.labeler.label_few(frame, keep=(*JUDGED_COLUMNS, MISSING)).select(names)


def live_rows(compiled: CompiledRules, events: Sequence[Event]) -> LabelledRows:
    """Return the events as judging that continues takes them."""
    return compiled.labeler.label_rows(ListedEvents(events))


def labelled_once() -> Label:
    """Return `live_rows` that labels equal batches of one rule set only once."""
    known: dict[tuple[str, ...], LabelledRows] = {}

    def label(compiled: CompiledRules, events: Sequence[Event]) -> LabelledRows:
        key = tuple(event.event_id for event in events)
        if key not in known:
            known[key] = live_rows(compiled, events)
        return known[key]

    return label


Whole = tuple[list[bytes], set[Change]]
"""The sorted records of all events, and the changes of status."""


def at_once(compiled: CompiledRules, events: Sequence[Event], *, satisfied: bool) -> Whole:
    """Judge all events at once."""
    judged = judge(compiled, labelled(compiled, events), OPEN, satisfied=satisfied)
    violated, unmet = first_breaches(judged.found, judged.closed, judged.rated)
    order = compiled.program.order
    changes = {
        ("violated", *where(judged, int(place)), int(order[column]))
        for found in (violated, unmet)
        for place, column in zip(found.stamps, found.columns, strict=True)
    }
    dead = unjudged_findings(judged.found)
    for place, column in zip(dead.stamps, dead.columns, strict=True):
        changes.add(("unjudged", *where(judged, int(place)), int(order[column])))
    for column, place in zip(*applied_at(compiled, judged), strict=True):
        changes.add(("applied", *where(judged, int(place)), int(order[column])))
    return sorted(map(encode_verdict, records(compiled, judged))), changes


def where(judged: Judged, place: int) -> tuple[str, int]:
    """Return session and occurrence of the event at a place."""
    row = int(judged.order.rows[place])
    return judged.labelled["session_id"][row], int(judged.labelled["occurrence"].cast(pl.Int64)[row])


class Live:
    """Sessions judged in batches, with what is carried encoded in between."""

    def __init__(self, compiled: CompiledRules, *, satisfied: bool, label: Label = live_rows) -> None:
        self.compiled, self.satisfied, self.label = compiled, satisfied, label
        self.layout = CarryLayout(compiled)
        self.carried: dict[str, bytes] = {}
        self.outcomes: list[BatchOutcome] = []

    def judge(self, batches: Sequence[Sequence[Event]]) -> None:
        """Judge batches together."""
        events = [event for batch in batches for event in batch]
        numbers = np.repeat(np.arange(len(batches)), list(map(len, batches)))
        sessions = {event.session_id for event in events}
        carried = {
            session: decode_carried(data) for session, data in self.carried.items() if session in sessions
        }
        rows = self.label(self.compiled, events)
        done = continue_judging(self.layout, carried, rows, numbers, satisfied=self.satisfied)
        assert set(done.carried) <= sessions
        self.outcomes += done.outcomes
        for session, state in done.carried.items():
            if state is None:
                self.carried.pop(session, None)
            else:
                self.carried[session] = encode_carried(state)

    @property
    def lines(self) -> list[bytes]:
        """Return the sorted records."""
        return sorted(encode_verdict(record) for outcome in self.outcomes for record in outcome.records)

    @property
    def changes(self) -> list[Change]:
        """Return the changes of status."""
        named = [(rule.pack, rule.id) for rule in self.compiled.rules]
        return [
            (kind, change.session_id, change.occurrence, named.index((change.pack, change.rule)))
            for outcome in self.outcomes
            for kind, changes in (
                ("applied", outcome.applied),
                ("violated", outcome.violated),
                ("violated", outcome.unmet),
                ("unjudged", outcome.unjudged),
            )
            for change in changes
        ]


def assert_same(
    compiled: CompiledRules, events: Sequence[Event], cuts: Sequence[int], satisfied: bool
) -> Live:
    """Judge in batches and at once, and compare."""
    live = Live(compiled, satisfied=satisfied)
    assert_cut(live, events, cuts, at_once(compiled, events, satisfied=satisfied))
    return live


def assert_cut(live: Live, events: Sequence[Event], cuts: Sequence[int], whole: Whole) -> None:
    """Judge in batches, and compare with what judging at once has given."""
    for begin, end in pairwise(cuts):
        live.judge([events[begin:end]])
    lines, changes = whole
    assert live.lines == lines
    assert len(live.changes) == len(set(live.changes))
    assert set(live.changes) == changes


def random_cuts(random: Random, count: int) -> list[int]:
    """Return places at which so many events are cut: batches of one size, or of many."""
    size = random.choice((1, 2, 5, 20, None))
    if size is not None:
        return [*range(0, count, size), count]
    return sorted({0, count, *(random.randrange(count) for _ in range(random.randint(0, 12)))})


@pytest.mark.parametrize("unknowns", [0.0, 0.02])
@pytest.mark.parametrize("satisfied", [False, True])
def test_any_cut_gives_the_records_of_judging_at_once(satisfied: bool, unknowns: float) -> None:
    """Rules of every kind, interleaved sessions of up to three occurrences: whole records and statuses."""
    verdicts = Counter[str]()
    for seed in range(8):
        random = Random(seed)
        events = random_sessions(random, 4, random.choice((6, 30, 60)), unknowns=unknowns)
        live = assert_same(COMPILED, events, random_cuts(random, len(events)), satisfied)
        verdicts.update(msgspec.json.decode(line)["verdict"] for line in live.lines)
        verdicts.update(change[0] for change in live.changes)
    print(f"continued: {dict(verdicts)}")
    assert min(verdicts[name] for name in ("violated", "unmet", "applied")) >= 100


def test_every_cut_of_a_short_session() -> None:
    """All cuts of sessions of up to seven rows."""
    count = 0
    for seed in range(8):
        events = random_session(Random(seed), "session-0", 4, 0.05)[:7]
        whole, label = at_once(COMPILED, events, satisfied=True), labelled_once()
        for chosen in range(1 << (len(events) - 1)):
            cuts = [0, *(i + 1 for i in range(len(events) - 1) if chosen >> i & 1), len(events)]
            assert_cut(Live(COMPILED, satisfied=True, label=label), events, cuts, whole)
            count += 1
    print(f"continued: {count} cuts")
    assert count >= 100, count


def test_limits_of_events_and_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limits rules are unjudged at the same events, and no more is carried of them."""
    monkeypatch.setattr(kernel, "EVENTS_MAX", 25)
    monkeypatch.setitem(kernel.judge.__kwdefaults__, "slices_max", 3)
    for seed in range(8):
        random = Random(seed)
        events = random_session(random, "session-0", 40, 0.0)
        live = assert_same(COMPILED, events, random_cuts(random, len(events)), satisfied=False)
        over = [event for event in events if event.seq > 25]
        if over and live.carried:
            assert max(map(len, live.carried.values())) < 200 or events[-1].seq <= 25


def test_batches_judged_together_are_judged_one_after_another() -> None:
    """The outcome of each batch, times and order included, is that of judging it alone after the others."""
    count = 0
    for seed in range(12):
        random = Random(seed)
        events = random_sessions(random, 4, 30)
        cuts = random_cuts(random, len(events))
        batches = [events[begin:end] for begin, end in pairwise(cuts)]
        together, alone = (Live(COMPILED, satisfied=True) for _ in range(2))
        groups = sorted({0, len(batches), *(random.randrange(len(batches)) for _ in range(3))})
        for begin, end in pairwise(groups):
            together.judge(batches[begin:end])
        for batch in batches:
            alone.judge([batch])
        assert_outcomes(together, alone)
        count += len(batches)
    assert count >= 200, count


def assert_outcomes(together: Live, alone: Live) -> None:
    """Assert that the outcomes of all batches are the same."""
    for left, right in zip(together.outcomes, alone.outcomes, strict=True):
        assert sorted(map(encode_verdict, left.records)) == sorted(map(encode_verdict, right.records))
        for kind in ("applied", "violated", "unmet", "unjudged"):
            changes = [sorted(map(repr, getattr(outcome, kind))) for outcome in (left, right)]
            assert changes[0] == changes[1]


@pytest.mark.parametrize("together_from", [0, 1])
@pytest.mark.parametrize("places", list(permutations((90, 91, 92))))
def test_an_occurrence_closes_with_its_first_end_row(places: Sequence[int], together_from: int) -> None:
    """Further end rows close nothing, whatever their places, in the batch of the events or after it."""
    events = [event for event in random_sessions(Random(3), 1, 30) if event.kind is not Kind.END]
    events = [event for event in events if event.occurrence == events[0].occurrence]
    end = end_event(events[0].session_id, events[0].occurrence, events[-1].time, 0, {})
    ends = [msgspec.structs.replace(end, seq=place, event_id=f"end {place}") for place in places]
    batches = [events, *([each] for each in ends)]
    together, alone = (Live(COMPILED, satisfied=True) for _ in range(2))
    for batch in batches[:together_from]:
        together.judge([batch])
    together.judge(batches[together_from:])
    for batch in batches:
        alone.judge([batch])
    assert_outcomes(together, alone)
    assert together.outcomes[1].unmet or together.outcomes[1].records


def test_letters_without_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a memory of few label words, the letters of words that are forgotten are computed again."""
    begun: list[WordLetters] = []
    begin = WordLetters._begin

    def counted(letters: WordLetters) -> None:
        begun.append(letters)
        begin(letters)

    monkeypatch.setattr(WordLetters, "_begin", counted)
    monkeypatch.setattr(word_letters, "REMEMBERED_MAX", 4)
    monkeypatch.setattr(kernel, "EVENTS_MAX", 25)
    for seed in range(4):
        random = Random(seed)
        events = random_sessions(random, 3, 40, unknowns=0.02)
        assert_same(COMPILED, events, random_cuts(random, len(events)), satisfied=True)
    assert len(begun) >= 20


def test_rows_in_any_order_with_repeats() -> None:
    """The rows of a batch need not be in judged order, and of several for one place one counts."""
    for seed in range(8):
        random = Random(seed)
        events = random_sessions(random, 4, 20)
        mixed = [*events, *random.choices(events, k=20)]
        mixed += [msgspec.structs.replace(event, event_id="~") for event in random.choices(events, k=5)]
        random.shuffle(mixed)
        lines, changes = at_once(COMPILED, events, satisfied=True)
        live = Live(COMPILED, satisfied=True)
        live.judge([mixed])
        assert live.lines == lines
        assert set(live.changes) == changes


def test_rows_that_are_nearly_in_order() -> None:
    """Neighbours have changed places, each row comes twice, or a session's last occurrence comes first."""
    events = random_sessions(Random(6), 2, 14)
    lines, changes = at_once(COMPILED, events, satisfied=True)
    by_session = sorted(events, key=lambda event: (event.session_id, event.occurrence))
    batches = [sorted(by_session, key=lambda event: (event.session_id, -event.occurrence))]
    batches.append([event for event in by_session for _ in range(2)])
    for place in range(len(events) - 1):
        mixed = [*by_session]
        mixed[place : place + 2] = mixed[place + 1], mixed[place]
        batches.append(mixed)
    assert len({(event.session_id, event.occurrence) for event in events}) > 3
    for batch in batches:
        live = Live(COMPILED, satisfied=True)
        live.judge([batch])
        assert live.lines == lines
        assert set(live.changes) == changes


@pytest.mark.parametrize("place", range(18))
def test_each_rule_alone(place: int) -> None:
    """A rule set of one rule, so that no place of its layout hides another."""
    compiled = compile_rule_set(rule_set([place]))
    for seed in range(2):
        random = Random(seed)
        events = random_sessions(random, 2, 40)
        assert_same(compiled, events, random_cuts(random, len(events)), satisfied=True)


def test_the_numbers_of_tables_are_those_of_the_release_before() -> None:
    """State that this release carries can be continued by one whose tables have the same digest alone.

    Where this test fails, the compiler numbers states otherwise: running sessions of the release before are
    refused (TRL701), and the changelog must state it.
    """
    assert program_digest(compile_rule_set(stopping(rule_set()))) == "364dcc3e868dc0f8"
    assert program_digest(COMPILED) == "24e5ddc8650b2b1d"
