"""The monitor without its broker: what is taken again, what is refused, what is put aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import msgspec
import pytest
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.model import digest
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.packs.load import pack_text
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Event, Kind
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS
from tracline.stream.error import StreamError
from tracline.stream.messages.codec import (
    Activation,
    CandidateBatch,
    Message,
    Tick,
    decode_dead_letter,
    decode_judged,
    decode_verdicts,
    encode,
)
from tracline.stream.messages.session_state import SessionState
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.judge import RuleSetJudge, Worker
from tracline.stream.stages.monitor import MonitorOptions, MonitorStage, MonitorStep
from tracline.stream.stages.rekey import Output, Record
from tracline.stream.stages.schedule import PASSED_MAX, Partition

from ..batch.audit_rows import PACK, START

RULES = pack_text(PACK)
OPTIONS = MonitorOptions(
    SessionSettings(idle_s=60, lateness_s=5), partitions=1, bytes_max=100_000, rules=dict(RULES.sources)
)
FIRST, SECOND = "ann", "bob"


def says(session_id: str, second: int, text: str) -> Candidate:
    """Something that a user said in a second of its own."""
    time = START + second * NS
    told = (Claim(Kind.USER, time, text=text, place=0, key=f"{second}"),)
    return Candidate(session_id, SpanRole.CHAT, time, time, told, "t", f"{session_id}-{second}", str(second))


def batch(until: int, *candidates: Candidate, source: int = 0, sources: int = 1) -> CandidateBatch:
    """A batch, and a watermark in seconds."""
    return CandidateBatch(source, sources, 0, START + until * NS, list(candidates))


def record(offset: int, message: Message | bytes) -> Record:
    """A record of the events' topic."""
    return Record(0, offset, START, message if isinstance(message, bytes) else encode(message))


class Monitor:
    """A monitor over a table that outlives it."""

    def __init__(self, options: MonitorOptions = OPTIONS, table: dict[str, bytes] | None = None) -> None:
        self.options, self.table = options, {} if table is None else table
        self.begin()

    def begin(self) -> None:
        """Begin from what the table holds."""
        self.monitoring = MonitorStage(self.options, self.table)
        self.monitoring.assign([0], list(self.table.items()))

    def take(self, offset: int, message: Message | bytes, writes: int | None = None) -> MonitorStep:
        """Take a message, and write all of it or only so many writes."""
        step = self.monitoring.step(record(offset, message))
        for key, value in step.writes[:writes]:
            if value is None:
                self.table.pop(key, None)
            else:
                self.table[key] = value
        return step


def verdicts(outputs: Sequence[Output]) -> list[tuple[str, str, str]]:
    """Session, rule and verdict of the records among outputs."""
    messages = [decode_verdicts(one.value or b"") for one in outputs if one.topic is Topic.VERDICTS]
    return [(one["session_id"], one["rule"], one["verdict"]) for told in messages for one in told["verdicts"]]


def codes(outputs: Sequence[Output]) -> list[str]:
    """The codes of the dead letters among outputs."""
    return [decode_dead_letter(one.value or b"").code for one in outputs if one.topic is Topic.DEAD_LETTER]


SHOUTS = [batch(0, says(FIRST, 1, "hello"), says(SECOND, 1, "well!")), batch(5, says(FIRST, 4, "now!"))]


def test_a_message_is_judged_once_the_time_has_passed_it() -> None:
    """Candidates wait until the watermark has passed them; verdicts say whose they are."""
    monitor = Monitor()
    assert verdicts(monitor.take(0, SHOUTS[0]).outputs) == []
    found = verdicts(monitor.take(1, SHOUTS[1]).outputs)
    assert sorted(found) == [(FIRST, "calm", "violated"), (SECOND, "calm", "violated")]


def test_the_time_moves_by_half_a_second_at_least() -> None:
    """What little messages tell is judged together: until then the time stands still, for readers, too."""
    monitor = Monitor()
    monitor.take(0, batch(0, says(FIRST, 1, "well!")))
    told = []
    for offset, tenths in enumerate((4, 8, 10, 12, 19), start=1):
        step = monitor.take(offset, Tick(1, {0: START + tenths * NS // 10}))
        watermark = 0 if step.watermark is None else (step.watermark - START) * 10 // NS
        told.append((watermark, len(verdicts(step.outputs))))
    assert told == [(0, 0), (8, 0), (8, 0), (8, 0), (19, 1)]


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


def test_a_session_that_ends_with_a_message_is_not_begun_anew_by_it() -> None:
    """A message that adds to a session and forgets it, cut anywhere and taken again, says nothing else."""
    message = batch(9_000, says(FIRST, 6, "more!"))
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


def test_last_words_are_said_once_wherever_a_crash_cuts() -> None:
    """A message that closes a session and forgets it, cut anywhere: the next one says no more of it.

    Taken again it may say the same again, under the same mark.
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
    """Something long that cannot be packed."""
    return says(FIRST, second, Random(second).randbytes(3_000).hex())


LARGE = [
    batch(0, much(1), much(2)),
    batch(0, much(3), says(SECOND, 3, "well!")),
    batch(2, much(4)),
    batch(2),
]
"""What waits in a session grows and shrinks, beyond what a record may have."""


def test_a_large_state_stands_in_pieces_wherever_a_crash_cuts() -> None:
    """No record is larger than a message may be; however many writes a crash left, all ends the same.

    What a session leaves behind goes with it.
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


def test_a_state_whose_pieces_are_not_all_there_is_refused() -> None:
    """It is said (TRL741), and not taken for another state."""
    monitor = Monitor(replace(OPTIONS, bytes_max=2_000))
    monitor.take(0, LARGE[0])
    del monitor.table[next(key for key in monitor.table if key.startswith("c/"))]
    monitor.begin()
    with pytest.raises(StreamError, match="damaged") as caught:
        monitor.take(1, LARGE[1])
    assert caught.value.code == "TRL741"


def test_what_was_planned_before_is_not_kept() -> None:
    """A session that goes on is due later each time, and leaves no trace of when it was due before."""
    partition = Partition()
    partition.plan(SECOND, 9 * PASSED_MAX)
    for due in range(1, 3 * PASSED_MAX):
        partition.plan(FIRST, due)
    assert len(partition.heap) <= PASSED_MAX + 4
    assert set(partition.reached(9 * PASSED_MAX)) == {FIRST, SECOND}


@pytest.mark.parametrize("named", [[says(FIRST, 5, "five")], []], ids=["named", "not named"])
def test_a_divided_session_waits_for_its_rest_whoever_else_names_it(named: list[Candidate]) -> None:
    """A message of another source, between the parts of one, judges nothing of their session."""
    parts = [
        batch(0, says(FIRST, 1, "hello"), sources=2),
        CandidateBatch(0, 2, 0, START + 9 * NS, [says(FIRST, 4, "four")], more=True),
        batch(9, *named, says(SECOND, 5, "well!"), source=1, sources=2),
        batch(9, says(FIRST, 3, "three"), sources=2),
    ]
    monitor = Monitor()
    steps = [monitor.take(offset, part) for offset, part in enumerate(parts)]
    assert [[event.session_id for event in step.judged.events] for step in steps[:3]] == [[], [], [SECOND]]
    told = [event.text for event in steps[3].judged.events]
    assert told == ["hello", "three", "four", *(["five"] if named else [])]
    assert not any(event.late for event in steps[3].judged.events)


def test_a_message_that_is_done_with_is_left_alone() -> None:
    """What the partition's facts say was taken gives nothing when it comes again."""
    monitor = Monitor()
    monitor.take(0, SHOUTS[0])
    monitor.begin()
    assert monitor.take(0, SHOUTS[0]) == MonitorStep(watermark=START)


def test_the_time_is_the_least_over_all_sources() -> None:
    """Nothing is judged before every source has told its time, nor ahead of the slowest; none goes back."""
    monitor = Monitor()
    assert monitor.take(0, batch(9, says(FIRST, 1, "well!"), sources=2)).watermark is None
    assert monitor.take(1, Tick(2, {1: START})).watermark == START
    done = monitor.take(2, Tick(2, {1: START + 20 * NS}))
    assert done.watermark == START + 9 * NS
    assert verdicts(done.outputs) == [(FIRST, "calm", "violated")]
    assert monitor.take(3, Tick(2, {1: START})).watermark == START + 9 * NS
    assert monitor.take(4, Tick(2, {0: START + 30 * NS})).watermark == START + 20 * NS


def test_every_tick_tells_the_time() -> None:
    """The topics of judged events and verdicts hear the watermark even where nothing was found."""
    monitor = Monitor()
    outputs = monitor.take(0, Tick(1, {0: START})).outputs
    [judged] = [one for one in outputs if one.topic is Topic.JUDGED]
    [told] = [one for one in outputs if one.topic is Topic.VERDICTS]
    assert decode_judged(judged.value or b"").watermark == START
    assert decode_verdicts(told.value or b"")["watermark"] == "2026-02-17T12:00:00.000000000Z"


@pytest.mark.parametrize("data", [b"", b"TL", b"junk", b"TL\x01\xff", encode(SHOUTS[0])[:-3]])
def test_a_record_that_is_no_message_is_put_aside(data: bytes) -> None:
    """A damaged record is a dead letter with its place; the next one is judged."""
    monitor = Monitor()
    done = monitor.take(7, data)
    [letter] = [decode_dead_letter(one.value or b"") for one in done.outputs]
    assert (letter.topic, letter.partition, letter.offset) == ("tracline.events", 0, 7)
    assert letter.code == "damaged"
    assert len(letter.sha256) == 64
    assert monitor.take(8, SHOUTS[1]).judged.records


@pytest.mark.parametrize(
    "message",
    [
        CandidateBatch(0, 1, 0, START, [], more=True),
        Tick(0, {}),
        batch(0, msgspec.structs.replace(says(SECOND, 1, "well!"), end=(1 << 64) - 1)),
    ],
    ids=["more of nothing", "no source", "no time that there is"],
)
def test_a_message_that_makes_no_sense_stops_nothing(message: Message) -> None:
    """It is taken as far as it says anything, and the next one is judged."""
    monitor = Monitor()
    monitor.take(0, message)
    monitor.begin()
    assert verdicts(monitor.take(1, SHOUTS[1]).outputs) == [(FIRST, "calm", "violated")]


def test_a_message_of_another_release_is_refused() -> None:
    """What a newer release wrote is not skipped: the monitor may not go on."""
    with pytest.raises(StreamError, match="version 9") as caught:
        Monitor().take(0, b"TL\x09" + encode(SHOUTS[0])[3:])
    assert caught.value.code == "TRL731"


@pytest.mark.parametrize("kind", ["s/", "p/"])
def test_a_state_of_another_release_is_refused(kind: str) -> None:
    """What is remembered of a session or a partition is read by the release that wrote it, or not at all."""
    monitor = Monitor()
    monitor.take(0, SHOUTS[0])
    for key in monitor.table:
        if key.startswith(kind):
            monitor.table[key] = b"\x09" + monitor.table[key][1:]
    with pytest.raises(StreamError, match="version 9") as caught:
        monitor.begin()
    assert caught.value.code == "TRL741"


def test_without_rules_nothing_is_judged() -> None:
    """Before the first activation, and without rules of its own, the monitor says what to do."""
    with pytest.raises(StreamError, match="no rule set") as caught:
        Monitor(replace(OPTIONS, rules=None)).take(0, SHOUTS[0])
    assert caught.value.code == "TRL742"


OTHER = PACK.replace("{id: calm,", "{id: quiet,")
OTHER_TEXTS = dict(pack_text(OTHER).sources)


@pytest.mark.parametrize(("finish", "rule"), [(True, "calm"), (False, "quiet")])
def test_other_rules_come_into_force(finish: bool, rule: str) -> None:
    """An open session finishes under its rules or begins anew; a new session is judged by the new ones."""
    monitor = Monitor(replace(OPTIONS, finish=finish))
    monitor.take(0, batch(2, says(FIRST, 1, "hello")))
    activated = monitor.take(1, Activation(OTHER_TEXTS))
    monitor.begin()
    done = monitor.take(2, batch(9, says(FIRST, 4, "now!"), says(SECOND, 5, "well!")))
    assert sorted(verdicts(done.outputs)) == [(FIRST, rule, "violated"), (SECOND, "quiet", "violated")]
    digests = {event.session_id: d for event, d in zip(done.judged.events, done.judged.digests, strict=True)}
    new = rule_set_digest(pack_text(OTHER))
    assert digests == {FIRST: rule_set_digest(RULES) if finish else new, SECOND: new}
    [told] = [one for one in activated.outputs if one.topic is Topic.JUDGED]
    assert decode_judged(told.value or b"").activated == {new: OTHER_TEXTS}


def test_superseded_rules_are_never_loaded() -> None:
    """Packs that are given with an activation come into force at its place, and its own do not."""
    monitor = Monitor()
    given = Record(0, 0, 0, encode(Activation({"desk": "no pack at all"})))
    done = monitor.monitoring.step(given, OTHER_TEXTS)
    [told] = [one for one in done.outputs if one.topic is Topic.JUDGED]
    assert decode_judged(told.value or b"").activated == {rule_set_digest(pack_text(OTHER)): OTHER_TEXTS}
    assert codes(done.outputs) == []


def test_rules_are_known_when_they_come_into_force() -> None:
    """Before any verdict of theirs, and after a restart before any message: each is told once."""
    monitor = Monitor()
    monitor.take(0, Tick(1, {0: START}))
    old = {(rule.pack, rule.id) for rule in RULES.rules}
    assert monitor.monitoring.met() == old
    monitor.take(1, Activation(OTHER_TEXTS))
    assert monitor.monitoring.met() == old - {("desk", "calm")} | {("desk", "quiet")}
    assert monitor.monitoring.met() == set()
    monitor.begin()
    assert ("desk", "quiet") in monitor.monitoring.met()


def test_rules_of_the_start_that_others_have_replaced_are_known() -> None:
    """Once rules are in force, those that a process is started with are not: it can say where."""
    monitor = Monitor()
    assert monitor.monitoring.passed_over() == []
    monitor.take(0, SHOUTS[0])
    monitor.begin()
    assert monitor.monitoring.passed_over() == []
    monitor.options = replace(OPTIONS, rules=OTHER_TEXTS)
    monitor.begin()
    assert monitor.monitoring.passed_over() == [0]


def test_labels_of_another_version_of_the_semantics_are_not_gone_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A release that reads rules otherwise refuses open sessions; once they are over, it goes on."""
    monkeypatch.setattr(digest, "SEMANTICS", "before")
    old = Monitor(replace(OPTIONS, rules=None))
    old.take(0, Activation(OTHER_TEXTS))
    old.take(1, batch(2, says(FIRST, 1, "hello")))
    before = rule_set_digest(pack_text(OTHER))
    monkeypatch.undo()
    with pytest.raises(StreamError, match="labelled by another release") as caught:
        Monitor(replace(OPTIONS, rules=None), old.table)
    assert caught.value.code == "TRL741"
    monkeypatch.setattr(digest, "SEMANTICS", "before")
    old.take(2, Tick(1, {0: START + 1_000 * NS}))
    monkeypatch.undo()
    new = Monitor(replace(OPTIONS, rules=None), old.table)
    done = new.take(3, batch(1_005, says(SECOND, 1_001, "well!")))
    after = rule_set_digest(pack_text(OTHER))
    assert verdicts(done.outputs) == [(SECOND, "quiet", "violated")]
    told = [decode_judged(one.value or b"") for one in done.outputs if one.topic is Topic.JUDGED]
    assert [one.activated for one in told if one.activated] == [{after: OTHER_TEXTS}]
    assert after != before
    new.begin()
    assert new.monitoring.passed_over() == []
    assert new.monitoring.offsets() == {0: 3}


def test_rules_that_mean_the_same_change_nothing() -> None:
    """Activating the same rules in another order leaves open sessions as they are; archives hear of them."""
    monitor = Monitor(replace(OPTIONS, finish=False))
    monitor.take(0, batch(2, Candidate("ann", SpanRole.TOOL, START, START, (_asks(0),), "t", "1", "1")))
    lines = PACK.splitlines()
    same = "\n".join([*lines[:4], lines[5], lines[4], *lines[6:]])
    again = monitor.take(1, Activation(dict(pack_text(same).sources)))
    [told] = [one for one in again.outputs if one.topic is Topic.JUDGED]
    assert set(decode_judged(told.value or b"").activated) == {rule_set_digest(RULES)}
    monitor.begin()
    done = monitor.take(2, Tick(1, {0: START + 1_000 * NS}))
    assert verdicts(done.outputs) == [("ann", "answered", "unmet")]


def _asks(second: int) -> Claim:
    return Claim(Kind.TOOL_CALL, START + second * NS, tool="look", call_id="c1")


def test_rules_that_cannot_be_used_are_put_aside() -> None:
    """An activation of rules with an error is a dead letter, and the rules in force stay."""
    monitor = Monitor()
    done = monitor.take(0, Activation({"desk": "pack: desk\nversion: 1\nrules: 7\n"}))
    assert codes(done.outputs) == ["damaged"]
    assert verdicts(monitor.take(1, SHOUTS[1]).outputs) == [(FIRST, "calm", "violated")]


def test_rules_of_the_start_that_cannot_be_used_end_the_process() -> None:
    """No message is put aside for rules that the process was started with."""
    with pytest.raises(StreamError, match="given at the start") as caught:
        Monitor(replace(OPTIONS, rules={"desk": "pack: desk\nversion: 1\nrules: 7\n"})).take(0, SHOUTS[0])
    assert caught.value.code == "TRL742"


def test_what_is_over_is_forgotten() -> None:
    """A session is forgotten when nothing that is in time can repeat what it told; facts and rules stay."""
    monitor = Monitor()
    monitor.take(0, SHOUTS[1])
    assert monitor.monitoring.open_sessions() == 1
    closed = monitor.take(1, Tick(1, {0: START + 70 * NS}))
    assert [event.kind for event in closed.judged.events] == [Kind.END]
    monitor.begin()
    monitor.take(2, Tick(1, {0: START + 300 * NS}))
    assert monitor.monitoring.open_sessions() == 0
    assert {key[:2] for key in monitor.table} == {"p/", "r/"}


def test_revoked_partitions_leave_nothing_behind() -> None:
    """A partition that comes back begins from the table, not from what was in memory."""
    monitor = Monitor()
    monitor.take(0, SHOUTS[0])
    monitor.monitoring.revoke([0])
    assert monitor.monitoring.open_sessions() == 0
    monitor.monitoring.assign([0], list(monitor.table.items()))
    assert len(monitor.take(1, SHOUTS[1]).judged.records) == 2


class Fragile(RuleSetJudge):
    """A rule set that breaks on one session's events."""

    def judged(self, states: Mapping[str, SessionState], events: Sequence[Event]):  # noqa: D102
        if any(event.text == "poison" for event in events):
            raise ZeroDivisionError
        return super().judged(states, events)


@pytest.fixture
def states() -> dict[str, SessionState]:
    """Two sessions that have said nothing yet."""
    empty = Monitor().monitoring._stored
    return {name: empty(name) for name in (FIRST, SECOND)}


def test_what_breaks_one_session_stops_no_other(states: dict[str, SessionState]) -> None:
    """The spans that break a session's judging are put aside by trace and span; others are judged."""
    worker = Worker(Fragile(compile_rule_set(RULES)))
    candidates = [says(FIRST, 1, "poison"), says(SECOND, 1, "well!")]
    done = worker.step_apart(states, candidates, START + 9 * NS, Monitor().monitoring._stored)
    assert [record.session_id for record in done.records] == [SECOND]
    [poison] = done.poison
    assert (poison.session_id, poison.spans, poison.reason) == (
        FIRST,
        (("t", "ann-1"),),
        "ZeroDivisionError",
    )
    assert states[FIRST].session.open is None


def test_a_session_that_breaks_by_itself_is_begun_anew(states: dict[str, SessionState]) -> None:
    """Where what waits in a session breaks it without anything new, its state is put aside."""
    for name, text in ((FIRST, "poison"), (SECOND, "well!")):
        states[name].session.add(says(name, 1, text))
    kept = {name: state.session.held.copy() for name, state in states.items()}

    def stored(name: str) -> SessionState:
        state = Monitor().monitoring._stored(name)
        state.session.held.update(kept[name])
        return state

    done = Worker(Fragile(compile_rule_set(RULES))).step_apart(states, [], START + 9 * NS, stored)
    assert [record.session_id for record in done.records] == [SECOND]
    assert [(one.session_id, one.spans) for one in done.poison] == [(FIRST, ())]
    assert states[FIRST].session.due is None
