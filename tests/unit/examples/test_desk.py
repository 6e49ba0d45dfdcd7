"""The simulated support desk: the same for a seed, as wrong as it is asked to be, without loss."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise
from random import Random

import polars as pl
import pytest
from tracline.examples.desk.bot import (
    AGENTS,
    Break,
    BreakSpike,
    Desk,
    conversation,
    conversations,
)
from tracline.examples.desk.formats import event_frame, events
from tracline.examples.desk.secrets import PREFIXES, card_number
from tracline.schemas.chat.decode import decode
from tracline.schemas.chat.find import RecordedConversation
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import EVENT_SCHEMA

from ...support.chat_logs import chat_log
from ...support.synthetic_events import synthetic_events

pytestmark = pytest.mark.slow

DESK = Desk(sessions=200, seed=3)


def expected_breaks(desk: Desk) -> Mapping[tuple[str, str], frozenset[str]]:
    """Return the ids of the sessions that break each rule, by (pack, rule), for every kind of break."""
    found: dict[tuple[str, str], set[str]] = {kind.value: set() for kind in Break}
    for chat in conversations(desk):
        for kind in chat.breaks:
            found[kind.value].add(chat.session_id)
    return {rule: frozenset(sessions) for rule, sessions in found.items()}


def test_the_same_desk_plays_the_same_conversations_in_any_order() -> None:
    """A conversation depends on the desk and its number only."""
    played = list(conversations(DESK))
    assert played == list(conversations(DESK))
    assert played[150] == conversation(DESK, 150)
    assert played[150].steps != conversation(replace(DESK, seed=4), 150).steps


def test_a_conversation_runs_forward_in_time_and_ends_inside_an_hour() -> None:
    """Steps have rising times, and no pause is long enough to close the session."""
    for played in conversations(DESK):
        times = [step.time_ns for step in played.steps]
        assert times[0] == played.start_ns
        assert all(a < b for a, b in pairwise(times))
        assert times[-1] - times[0] < 3600 * 10**9


def test_conversations_lie_on_the_desks_days_and_are_shared_by_its_agents() -> None:
    """Every day and every agent of the desk has conversations, and no other day has."""
    played = list(conversations(replace(DESK, sessions=600)))
    days = {datetime.fromtimestamp(talk.start_ns // 10**9, UTC).date() for talk in played}
    assert days == {date(2026, 3, 2 + i) for i in range(14)}
    assert {talk.agent for talk in played} == set(AGENTS)


def test_each_kind_of_break_comes_about_as_often_as_asked() -> None:
    """Of 2000 conversations each kind is in the share asked for, give or take four deviations."""
    rate, sessions = 0.03, 2000
    desk = Desk(sessions=sessions, seed=8, rates=dict.fromkeys(Break, rate), spike=None)
    found = {rule: len(broken) for rule, broken in expected_breaks(desk).items()}
    deviation = (sessions * rate * (1 - rate)) ** 0.5
    # Who never authenticates reads the order unauthenticated as well.
    expected = {kind: sessions * rate * (2 if kind is Break.READ else 1) for kind in Break}
    assert all(abs(found[kind.value] - expected[kind]) < 4 * 1.5 * deviation for kind in Break)


def test_nothing_is_broken_where_nothing_is_asked_for() -> None:
    """With no rates and no spike every conversation is clean."""
    desk = replace(DESK, rates={}, spike=None)
    assert set(expected_breaks(desk)) == {kind.value for kind in Break}
    assert not any(expected_breaks(desk).values())


def test_the_spike_stands_on_its_day() -> None:
    """On the day of the spike its kind of break is in a quarter of the conversations, elsewhere in few."""
    desk = Desk(sessions=1500, seed=2, spike=BreakSpike(day=5, kind=Break.CONFIRM_REFUND, rate=0.25))
    day, total = Counter[date](), Counter[date]()
    for played in conversations(desk):
        when = datetime.fromtimestamp(played.start_ns // 10**9, UTC).date()
        total[when] += 1
        day[when] += Break.CONFIRM_REFUND in played.breaks
    spike = date(2026, 3, 7)
    assert day[spike] > 0.15 * total[spike]
    assert max(day[quiet_day] / total[quiet_day] for quiet_day in total if quiet_day != spike) < 0.05


@pytest.mark.parametrize("rates", [{Break.READ: -0.1}, {Break.READ: 0.7, Break.STUBBORN: 0.4}])
def test_rates_that_are_no_probabilities_are_refused(rates: dict[Break, float]) -> None:
    """Negative rates, and rates above 1 together, raise ValueError."""
    with pytest.raises(ValueError, match="rates"):
        conversation(replace(DESK, rates=rates, spike=None), 0)


def test_card_numbers_pass_the_check_digit() -> None:
    """Every made-up card number has a known prefix, the right length and a sum divisible by ten."""
    for seed in range(200):
        digits = [int(char) for char in card_number(Random(seed)) if char.isdigit()]
        doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
        assert (sum(doubled) + sum(digits[-1::-2])) % 10 == 0
        assert "".join(map(str, digits)).startswith(PREFIXES)
        assert len(digits) in (15, 16)


def test_a_conversation_written_as_a_chat_log_is_read_back_as_its_own_events() -> None:
    """The chat log's reader gives the events of the desk, less what is nested."""
    played = list(conversations(replace(DESK, rates=dict.fromkeys(Break, 0.03))))
    for talk in played:
        log = json.loads(json.dumps(chat_log(talk)))
        read = decode(RecordedConversation(log["messages"], log, "log"))
        assert read.flaws == ()
        direct = [event for event in events(talk) if not event.nested]
        assert [content(event) for event in read.events] == [content(event) for event in direct]


def content(event: Event) -> tuple[object, ...]:
    """Return an event's content and actor, without its place."""
    fields = (event.kind, event.text, event.tool, event.call_id, event.args, event.result, event.error)
    return (event.session_id, event.occurrence, event.agent, event.model, event.service, *fields)


def test_the_event_frame_holds_judged_events_and_an_end_per_conversation() -> None:
    """Rows have the frame's schema, places from 1, ids of their own, and one `end` row per session, last."""
    frame = event_frame(conversations(DESK))
    assert frame.schema == pl.Schema(EVENT_SCHEMA)
    assert frame["event_id"].n_unique() == frame.height
    places = frame.group_by("session_id", maintain_order=True).agg("seq", "kind")
    assert places.height == DESK.sessions
    for seq, kind in places.select("seq", "kind").iter_rows():
        assert seq == list(range(1, len(seq) + 1))
        assert kind.index(Kind.END) == len(kind) - 1


def test_synthetic_events_are_the_same_however_they_are_cut() -> None:
    """Chunks of any size make up the same rows in order of time; event ids are distinct."""
    whole, many = (pl.concat(synthetic_events(20_000, 2, chunk_events=chunk)) for chunk in (10**6, 3_000))
    assert whole.drop("event_id").equals(many.drop("event_id"))
    assert whole["time"].is_sorted()
    assert many["event_id"].n_unique() == many.height
    assert set(many["event_id"].str.len_chars()) == {32}


def test_synthetic_conversations_are_whole_and_as_many_as_needed() -> None:
    """Sessions have places from 1 to an `end`, and without the last one there would be too few rows."""
    frame = pl.concat(synthetic_events(5_000, 2))
    sessions = frame.group_by("session_id").agg(pl.col("seq").sort(), pl.col("kind").last(), pl.len())
    assert all(seq == list(range(1, len(seq) + 1)) for seq in sessions["seq"].to_list())
    assert set(sessions["kind"]) == {"end"}
    assert 5_000 <= frame.height < 5_000 + sessions["len"].max()
    assert frame.schema == pl.Schema(EVENT_SCHEMA)


def test_a_synthetic_conversation_has_an_order_of_its_own() -> None:
    """Every order number in a session's texts, arguments and results is the same one."""
    frame = pl.concat(synthetic_events(5_000, 2))
    numbers = frame.select(
        "session_id", pl.concat_str("text", "args", "result", ignore_nulls=True).alias("all")
    )
    found = numbers.with_columns(pl.col("all").str.extract_all(r"#W\d{7}")).explode("all").drop_nulls()
    assert found.group_by("session_id").agg(pl.col("all").n_unique())["all"].max() == 1
    assert found["all"].n_unique() > 100


@pytest.mark.parametrize("sizes", [(0, 10), (10, 0)])
def test_synthetic_events_want_positive_sizes(sizes: tuple[int, int]) -> None:
    """No events, or chunks of none, raise ValueError."""
    with pytest.raises(ValueError, match="above 0"):
        next(synthetic_events(sizes[0], 1, chunk_events=sizes[1]))
