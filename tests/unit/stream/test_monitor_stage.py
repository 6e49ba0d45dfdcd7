"""The monitor without its broker: repeated messages, refused ones, and dead letters."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
import pytest
from tracline.schemas.candidate import Candidate
from tracline.schemas.event import Kind
from tracline.schemas.records.dead_letter import decode_dead_letter
from tracline.schemas.time import NS
from tracline.stream.error import StreamError
from tracline.stream.messages.codec import (
    CandidateBatch,
    EventsMessage,
    Tick,
    decode_judged,
    decode_verdicts,
    encode,
)
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.schedule import PASSED_MAX, Schedule

from ...support.event_rows import START
from .monitor_driver import FIRST, OPTIONS, SECOND, Monitor, batch, verdicts, wrote

SHOUTS = [batch(0, wrote(FIRST, 1, "hello"), wrote(SECOND, 1, "well!")), batch(5, wrote(FIRST, 4, "now!"))]


def test_a_message_is_judged_once_the_time_has_passed_it() -> None:
    """Candidates wait until the watermark has passed them; a verdict names its session."""
    monitor = Monitor()
    assert verdicts(monitor.take(0, SHOUTS[0]).outputs) == []
    found = verdicts(monitor.take(1, SHOUTS[1]).outputs)
    assert sorted(found) == [(FIRST, "calm", "violated"), (SECOND, "calm", "violated")]


def test_the_time_advances_by_half_a_second_at_least() -> None:
    """The watermark waits, so that small messages are judged together; readers see the same watermark."""
    monitor = Monitor()
    monitor.take(0, batch(0, wrote(FIRST, 1, "well!")))
    found = []
    for offset, tenths in enumerate((4, 8, 10, 12, 19), start=1):
        step = monitor.take(offset, Tick(1, {0: START + tenths * NS // 10}))
        watermark = 0 if step.watermark is None else (step.watermark - START) * 10 // NS
        found.append((watermark, len(verdicts(step.outputs))))
    assert found == [(0, 0), (8, 0), (8, 0), (8, 0), (19, 1)]


@pytest.mark.slow
def test_a_message_cut_anywhere_in_its_writes_is_taken_again() -> None:
    """However many writes a crash left, the message taken again adds nothing new, and all ends the same."""
    whole = Monitor()
    for offset, message in enumerate(SHOUTS):
        last = whole.take(offset, message)
    assert len(last.writes) > 2
    for cut in range(len(last.writes) + 1):
        monitor = Monitor()
        monitor.take(0, SHOUTS[0])
        monitor.take(1, SHOUTS[1], writes=cut)
        monitor.begin()
        again = monitor.take(1, SHOUTS[1])
        assert set(verdicts(again.outputs)) <= set(verdicts(last.outputs))
        assert monitor.table == whole.table


@pytest.mark.slow
def test_a_session_that_ends_with_a_message_does_not_begin_again_with_it() -> None:
    """A message that adds to a session and forgets it, cut anywhere and stepped again, gives the same."""
    message = batch(9_000, wrote(FIRST, 6, "more!"))
    whole = Monitor()
    whole.take(0, SHOUTS[1])
    last = whole.take(1, message)
    assert [event.seq for event in last.judged.events] == [2, 3]
    for cut in range(len(last.writes) + 1):
        monitor = Monitor()
        monitor.take(0, SHOUTS[1])
        monitor.take(1, message, writes=cut)
        monitor.begin()
        assert all(output in last.outputs for output in monitor.take(1, message).outputs)
        after = monitor.take(2, Tick(1, {0: START + 9_001 * NS}))
        assert (after.judged.events, after.judged.records) == ([], [])
        assert not any(key.startswith("s/") for key in monitor.table)


@pytest.mark.slow
def test_a_close_is_reported_once_wherever_a_crash_cuts() -> None:
    """A message that closes a session and forgets it, cut anywhere: the next one gives nothing of it.

    Stepped again it may give the same outputs, under the same mark.
    """
    whole = Monitor()
    whole.take(0, SHOUTS[1])
    last = whole.take(1, Tick(1, {0: START + 9_000 * NS}))
    assert [event.kind for event in last.judged.events] == [Kind.END]
    for cut in range(len(last.writes) + 1):
        monitor = Monitor()
        monitor.take(0, SHOUTS[1])
        monitor.take(1, Tick(1, {0: START + 9_000 * NS}), writes=cut)
        monitor.begin()
        monitor.take(1, Tick(1, {0: START + 9_000 * NS}))
        after = monitor.take(2, Tick(1, {0: START + 9_001 * NS}))
        assert (after.judged.events, after.judged.records) == ([], [])
        assert not any(key.startswith("s/") for key in monitor.table)


def much(second: int) -> Candidate:
    """Return a long message that cannot be compressed."""
    return wrote(FIRST, second, Random(second).randbytes(3_000).hex())


LARGE = [
    batch(0, much(1), much(2)),
    batch(0, much(3), wrote(SECOND, 3, "well!")),
    batch(2, much(4)),
    batch(2),
]
"""The waiting spans of a session grow and shrink, beyond the size of a record."""


@pytest.mark.slow
def test_a_large_state_has_chunks_wherever_a_crash_cuts() -> None:
    """No record is larger than a message may be; however many writes a crash left, all ends the same.

    The chunks of a session are deleted with it.
    """
    options = replace(OPTIONS, bytes_max=2_000)
    whole = Monitor(options)
    steps = [whole.take(offset, message) for offset, message in enumerate(LARGE)]
    assert max(len(value or b"") for step in steps for _, value in step.writes) < 2_100
    assert sum(key.startswith("c/") for key in whole.table) > 2
    for offset, step in enumerate(steps[:-1]):
        for cut in range(len(step.writes) + 1):
            monitor = Monitor(options)
            for before in range(offset):
                monitor.take(before, LARGE[before])
            monitor.take(offset, LARGE[offset], writes=cut)
            monitor.begin()
            for after in range(offset, len(LARGE)):
                monitor.take(after, LARGE[after])
            assert monitor.table == whole.table, (offset, cut)
    done = whole.take(len(LARGE), Tick(1, {0: START + 9_000 * NS}))
    assert [event.text for event in done.judged.events if event.text and len(event.text) > 10] == [
        much(second).claims[0].text for second in (3, 4)
    ]
    assert not any(key.startswith(("s/", "c/")) for key in whole.table)


def test_a_state_without_all_of_its_chunks_is_refused() -> None:
    """The error is TRL741; the state is not read as another one."""
    monitor = Monitor(replace(OPTIONS, bytes_max=2_000))
    monitor.take(0, LARGE[0])
    del monitor.table[next(key for key in monitor.table if key.startswith("c/"))]
    monitor.begin()
    with pytest.raises(StreamError, match="damaged") as caught:
        monitor.take(1, LARGE[1])
    assert caught.value.code == "TRL741"


def test_replaced_entries_of_the_schedule_are_dropped() -> None:
    """A session that continues is due later each time; its earlier entries do not accumulate."""
    schedule = Schedule()
    schedule.plan(SECOND, 9 * PASSED_MAX)
    for due in range(1, 3 * PASSED_MAX):
        schedule.plan(FIRST, due)
    assert len(schedule.heap) <= PASSED_MAX + 4
    assert set(schedule.due_at(9 * PASSED_MAX)) == {FIRST, SECOND}


@pytest.mark.parametrize("named", [[wrote(FIRST, 5, "five")], []], ids=["named", "not named"])
def test_a_divided_session_waits_for_its_rest_whatever_else_names_it(named: list[Candidate]) -> None:
    """A message of another source, between the parts of one, judges nothing of their session."""
    parts = [
        batch(0, wrote(FIRST, 1, "hello"), sources=2),
        CandidateBatch(0, 2, 0, START + 9 * NS, [wrote(FIRST, 4, "four")], more=True),
        batch(9, *named, wrote(SECOND, 5, "well!"), source=1, sources=2),
        batch(9, wrote(FIRST, 3, "three"), sources=2),
    ]
    monitor = Monitor()
    steps = [monitor.take(offset, part) for offset, part in enumerate(parts)]
    assert [[event.session_id for event in step.judged.events] for step in steps[:3]] == [[], [], [SECOND]]
    texts = [event.text for event in steps[3].judged.events]
    assert texts == ["hello", "three", "four", *(["five"] if named else [])]
    assert not any(event.late for event in steps[3].judged.events)


def test_a_message_that_is_done_with_is_left_alone() -> None:
    """A message that the partition's facts have gives nothing when it comes again."""
    monitor = Monitor()
    monitor.take(0, SHOUTS[0])
    monitor.begin()
    again = monitor.take(0, SHOUTS[0])
    assert (again.outputs, again.writes, again.watermark) == ((), (), START)


def test_the_time_is_the_least_over_all_sources() -> None:
    """Nothing is judged before every source has reported, nor ahead of the slowest; no time goes back."""
    monitor = Monitor()
    assert monitor.take(0, batch(9, wrote(FIRST, 1, "well!"), sources=2)).watermark is None
    assert monitor.take(1, Tick(2, {1: START})).watermark == START
    done = monitor.take(2, Tick(2, {1: START + 20 * NS}))
    assert done.watermark == START + 9 * NS
    assert verdicts(done.outputs) == [(FIRST, "calm", "violated")]
    assert monitor.take(3, Tick(2, {1: START})).watermark == START + 9 * NS
    assert monitor.take(4, Tick(2, {0: START + 30 * NS})).watermark == START + 20 * NS


def test_every_tick_reports_the_watermark() -> None:
    """Judged events and verdicts have the watermark even where nothing was found."""
    monitor = Monitor()
    outputs = monitor.take(0, Tick(1, {0: START})).outputs
    [judged] = [output for output in outputs if output.topic is Topic.JUDGED]
    [given] = [output for output in outputs if output.topic is Topic.VERDICTS]
    assert decode_judged(judged.value or b"").watermark == START
    assert decode_verdicts(given.value or b"").watermark == START


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"TL",
        b"junk",
        b"TL\x01\xff",
        b"TL\x01\x82\xa4type\xa5batch\xa1x" + b"\x91" * 100_000,
        encode(SHOUTS[0])[:-3],
    ],
)
def test_a_record_that_is_no_message_is_put_aside(data: bytes) -> None:
    """A damaged record is a dead letter with its place; the next one is judged."""
    monitor = Monitor()
    done = monitor.take(7, data)
    [letter] = [decode_dead_letter(output.value or b"") for output in done.outputs]
    assert (letter.topic, letter.partition, letter.offset) == ("tracline.events", 0, 7)
    assert letter.code == "damaged"
    assert len(letter.sha256) == 64
    assert monitor.take(8, SHOUTS[1]).judged.records


@pytest.mark.parametrize(
    "message",
    [
        CandidateBatch(0, 1, 0, START, [], more=True),
        Tick(0, {}),
        batch(0, msgspec.structs.replace(wrote(SECOND, 1, "well!"), end=(1 << 64) - 1)),
    ],
    ids=["more of nothing", "no source", "no time that there is"],
)
def test_a_message_that_makes_no_sense_stops_nothing(message: EventsMessage) -> None:
    """The stage reads the valid part of it, and judges the next one."""
    monitor = Monitor()
    monitor.take(0, message)
    monitor.begin()
    assert verdicts(monitor.take(1, SHOUTS[1]).outputs) == [(FIRST, "calm", "violated")]


def test_a_message_of_another_release_is_refused() -> None:
    """The monitor does not skip a message that a newer release wrote: it ends."""
    with pytest.raises(StreamError, match="version 9") as caught:
        Monitor().take(0, b"TL\x09" + encode(SHOUTS[0])[3:])
    assert caught.value.code == "TRL731"


@pytest.mark.parametrize("kind", ["s/", "p/"])
def test_a_state_of_another_release_is_refused(kind: str) -> None:
    """A release reads the states of its own version alone."""
    monitor = Monitor()
    monitor.take(0, SHOUTS[0])
    for key in monitor.table:
        if key.startswith(kind):
            monitor.table[key] = b"\x09" + monitor.table[key][1:]
    with pytest.raises(StreamError, match="version 9") as caught:
        monitor.begin()
    assert caught.value.code == "TRL741"


def test_without_rules_nothing_is_judged() -> None:
    """Before the first activation, and without rules of its own, the monitor reports what to do."""
    with pytest.raises(StreamError, match="no rule set") as caught:
        Monitor(replace(OPTIONS, rules=None)).take(0, SHOUTS[0])
    assert caught.value.code == "TRL742"


def test_what_is_over_is_forgotten() -> None:
    """A session is forgotten once no span in time can repeat its claims; facts and rules stay."""
    monitor = Monitor()
    monitor.take(0, SHOUTS[1])
    assert monitor.state.open_sessions == 1
    closed = monitor.take(1, Tick(1, {0: START + 70 * NS}))
    assert [event.kind for event in closed.judged.events] == [Kind.END]
    monitor.begin()
    monitor.take(2, Tick(1, {0: START + 300 * NS}))
    assert monitor.state.open_sessions == 0
    assert {key[:2] for key in monitor.table} == {"p/", "r/"}


def test_revoked_partitions_leave_nothing_behind() -> None:
    """A partition that comes back begins from the table, not from what was in memory."""
    monitor = Monitor()
    monitor.take(0, SHOUTS[0])
    monitor.state.revoke([0])
    assert monitor.state.open_sessions == 0
    monitor.stage.restore(monitor.state, [0], list(monitor.table.items()))
    assert len(monitor.take(1, SHOUTS[1]).judged.records) == 2


def test_spans_that_come_after_their_session_was_forgotten_have_places_of_their_own() -> None:
    """Two begin at one time; one that comes again has its place again, and spans in time have theirs."""
    first = wrote(FIRST, 5, "hello")
    second = msgspec.structs.replace(wrote(FIRST, 5, "well"), span_id="another")
    messages = [
        batch(1, wrote(SECOND, 0, "now")),
        batch(9_000),
        *(batch(9_000, each) for each in (first, second)),
    ]
    monitor = Monitor()
    taken = [monitor.take(offset, message).judged.events for offset, message in enumerate(messages)]
    assert [event.occurrence for events in taken[:2] for event in events] == [START, START]
    events = [event for judged in taken[2:] for event in judged]
    assert {event.time for event in events if event.kind is not Kind.END} == {first.start}
    assert len({(event.session_id, event.occurrence, event.seq) for event in events}) == len(events) == 4
    assert all(0 < event.occurrence - first.start < NS // 100 for event in events)
    assert monitor.take(4, messages[3]).judged.events == taken[3]
