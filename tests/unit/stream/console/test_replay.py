"""Rules replayed for a session's page: verdicts, residuals and slices at each event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tracline.rules.engine.monitor import Monitor
from tracline.schemas.event import Event
from tracline.schemas.verdict import Verdict
from tracline.stream.console import queries
from tracline.stream.console.replay import STEPS_AN_EVENT_MAX, RuleReplay, replay

from ..console_store import call, desk_sessions, result, session, shipped, user
from .asking import DESK

pytestmark = pytest.mark.slow


def test_a_replayed_session_comes_to_its_verdicts(desk: Path) -> None:
    """Replaying a session gives the verdicts that are in the store, each at its event and in its slice."""
    found = 0
    for events in desk_sessions(30):
        replays = replay(shipped(), events[:-1])
        replayed = {
            (replayed_rule.number, *verdict)
            for replayed_rule in replays
            for verdict in verdicts(replayed_rule)
        }
        names = {(rule.pack, rule.id): number for number, rule in enumerate(shipped().rules)}
        records = stored(desk, events)
        assert replayed == {(names[r.pack, r.rule], r.slice, r.seq, r.verdict) for r in records}
        found += len(records)
    assert found > 30


def stored(store: Path, events: tuple[Event, ...]) -> list[queries.VerdictDetails]:
    """The records of one session."""
    with queries.reading(store) as db:
        return queries.records_of(db, events[0].session_id, events[0].occurrence, 1000)


def verdicts(replayed_rule: RuleReplay) -> Iterator[tuple[str | None, int, Verdict]]:
    """Yield what a replayed_rule reports, and what is left unmet."""
    for at, marks in enumerate(replayed_rule.steps):
        yield from ((m.slice, at + 1, m.verdict) for m in marks.shown if m.reported)
    for slice_replay in replayed_rule.slices:
        if slice_replay.closing is Verdict.UNMET:
            yield slice_replay.last.slice, slice_replay.seq, Verdict.UNMET


def test_the_residual_at_each_event_is_the_monitors() -> None:
    """Beside each event stands what a monitor of the formula asks next there."""
    events = session("s", call(), user("hm"), result(), user("x!"), call(), end=False)
    answered, calm, _ = replay(DESK, events)
    monitor = Monitor("always (call -> eventually result)")
    for event, marks in zip(events, answered.steps, strict=True):
        verdict = monitor.step(
            {"call"} if event.tool and not event.result else {"result"} if event.result else set()
        )
        assert [(mark.verdict, mark.residual) for mark in marks.shown] == [(verdict, monitor.residual)]
    assert [marks.shown[0].residual for marks in calm.steps] == ["always not angry"] * 3 + [
        "false",
        "always not angry",
    ]
    assert [marks.is_change for marks in answered.steps] == [True, False, True, False, True]


def test_slices_are_distinct() -> None:
    """A rule with slices has a mark for each slice that an event steps, and the last of each stands."""
    events = session("s", call("pay", "a"), call("pay", "b"), user("hm"), call("pay", "a"), end=False)
    replayed_rule = replay(DESK, events)[2]
    assert [[mark.slice for mark in marks.shown] for marks in replayed_rule.steps] == [
        ["a"],
        ["b"],
        [None, "a", "b"],
        ["a"],
    ]
    assert [mark.verdict for mark in replayed_rule.steps[3].shown] == [Verdict.VIOLATED]
    assert {(s.last.slice, s.seq, s.closing) for s in replayed_rule.slices} == {
        ("a", 4, None),
        ("b", 3, Verdict.HELD),
    }


def test_an_event_of_many_slices_shows_some() -> None:
    """An event without a value steps every slice; some are shown, and the others counted."""
    events = session("s", *(call("pay", f"c{i}") for i in range(20)), user("hm"), end=False)
    marks = replay(DESK, events)[2].steps[-1]
    assert (len(marks.shown), marks.more) == (STEPS_AN_EVENT_MAX, 21 - STEPS_AN_EVENT_MAX)
