"""The monitor judges several messages together: the outputs are those of judging them one by one.

The messages come in polls of any size, over two partitions; a crash may leave any part of a poll's outputs
and writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random
from typing import TypeAlias

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.rules.incremental import carried_slices
from tracline.rules.incremental.carried_slices import CarriedSlices
from tracline.rules.packs.load import pack_text
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Event, Kind
from tracline.schemas.sessions.memory import held, seen
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS
from tracline.stream.messages.codec import (
    Activation,
    CandidateBatch,
    EventsMessage,
    Mark,
    Tick,
    decode_judged,
    decode_verdicts,
    encode,
    partition_of,
)
from tracline.stream.messages.monitor_state import decode_head, decode_session, keys_of_session
from tracline.stream.messages.record import Output, Record
from tracline.stream.messages.session_state import JudgingState
from tracline.stream.messages.topics import Topic
from tracline.stream.stages import rule_sets
from tracline.stream.stages.monitor import MonitorResult, MonitorStage
from tracline.stream.stages.monitor_step import MonitorOptions
from tracline.stream.stages.rule_set_judge import BatchVerdicts, RuleSetJudge
from tracline.stream.stages.schedule import MonitorState, Write

from ..support.event_rows import PACK, START

PARTITIONS = 2
IDLE_S = 20
SESSIONS = [f"session-{number}" for number in range(5)]
PACKS = [PACK, PACK.replace("{id: calm,", "{id: quiet,"), PACK.replace("weak_until angry", "until angry")]
TEXTS = ("hi", "now!", "x" * 300)

Table: TypeAlias = dict[str, bytes]


class Fragile(RuleSetJudge):
    """A rule set that breaks on some events."""

    def judge(
        self, states: Mapping[str, JudgingState], batches: Sequence[Sequence[Event]]
    ) -> tuple[list[BatchVerdicts], dict[str, JudgingState]]:
        """Raise an error where an event is poison."""
        if any(event.text == "poison" for batch in batches for event in batch):
            raise ZeroDivisionError
        return super().judge(states, batches)


@cache
def stage(finish: bool, bytes_max: int) -> MonitorStage:
    """Return a stage, the same one for all tables: it is a function of its arguments."""
    rules = dict(pack_text(PACKS[0]).sources)
    options = MonitorOptions(SessionSettings(idle_s=IDLE_S, lateness_s=5), PARTITIONS, bytes_max)
    return MonitorStage(replace(options, finish=finish, rules=rules, satisfied=True))


def patch_pages(patched: pytest.MonkeyPatch) -> None:
    """Let all that is stored be in pages."""
    patched.setattr(carried_slices, "RECENT_MAX", 0)
    patched.setattr(seen, "RECENT_MAX", 0)
    patched.setattr(held, "RECENT_CHARS_MAX", 0)


def claim(random: Random, time: int, key: str) -> Claim:
    """Return something that happens in a session."""
    kind = random.choice((Kind.USER, Kind.USER, Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.END))
    if kind is Kind.USER:
        return Claim(kind, time, text=random.choice(TEXTS), place=0, key=key)
    if kind is Kind.END:
        return Claim(kind, time)
    tool, call_id = random.choice(("look", "pay", "odd")), f"c{random.randrange(3)}"
    return Claim(kind, time, tool=tool, call_id=call_id, result="ok" if kind is Kind.TOOL_RESULT else None)


def candidate(random: Random, session_id: str, second: float, key: str) -> Candidate:
    """Return a span of a session around that second, sometimes a late one."""
    time = START + round((second - random.choice((0, 1, 2, 30))) * NS)
    claims = tuple(claim(random, time + place, f"{key}-{place}") for place in range(random.randint(1, 2)))
    if random.random() < 0.03:
        claims = (Claim(Kind.USER, time, text="poison", place=0, key=key),)
    return Candidate(session_id, SpanRole.CHAT, time, time + 2, claims, "t", key, key)


def messages(seed: int) -> Iterator[tuple[int, EventsMessage | bytes]]:
    """Yield messages with their partitions: batches of two sources, ticks, activations, damaged records."""
    random, second = Random(seed), 0.0
    for number in range(random.randint(4, 24)):
        partition = random.randrange(PARTITIONS)
        second += random.choice((0.1, 0.4, 1, 3, 3, IDLE_S, 3 * IDLE_S))
        watermark = START + round(second * NS)
        chance = random.random()
        if chance < 0.15:
            yield partition, Activation(dict(pack_text(random.choice(PACKS)).sources))
        elif chance < 0.18:
            yield partition, b"TL\x01junk"
        elif chance < 0.25:
            yield partition, Tick(2, {0: watermark, 1: watermark})
        else:
            ours = [name for name in SESSIONS if partition_of(name, PARTITIONS) == partition]
            named = [random.choice(ours) for _ in range(random.randint(0, 4))]
            spans = [candidate(random, name, second, f"{number}-{i}") for i, name in enumerate(named)]
            yield partition, Tick(2, {0: watermark - NS, 1: watermark - NS})
            if spans and chance > 0.7:
                yield partition, CandidateBatch(0, 2, number, watermark, spans[:1], more=True)
                spans = [span for span in spans if span.session_id == spans[0].session_id][1:]
            yield partition, CandidateBatch(0, 2, number, watermark, spans)


def records_of(seed: int) -> list[Record]:
    """Return the messages as records."""
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    records: list[Record] = []
    for partition, message in messages(seed):
        value = message if isinstance(message, bytes) else encode(message)
        records.append(Record(partition, offsets[partition], START, value, Topic.EVENTS))
        offsets[partition] += 1
    return records


def write(table: Table, writes: Sequence[Write]) -> None:
    """Change the table."""
    for key, value in writes:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


def begun(judge: MonitorStage, table: Table) -> MonitorState:
    """Return the state of a process that starts over the table."""
    state = MonitorState(table)
    judge.restore(state, range(PARTITIONS), list(table.items()))
    return state


def run(
    judge: MonitorStage, table: Table, records: Sequence[Record], random: Random, *, one_by_one: bool = False
) -> list[Output]:
    """Step the records in polls; return all outputs. The table changes."""
    state, outputs = begun(judge, table), list[Output]()
    cuts = range(len(records) + 1) if one_by_one else cuts_of(len(records), random)
    for begin, end in pairwise(cuts):
        result = judge.step(state, records[begin:end])
        outputs += result.outputs
        for writes in result.writes.values():
            write(table, writes)
        state.apply(result.writes)
        if random.random() < 0.1:
            state = begun(judge, table)
    return outputs


def cuts_of(count: int, random: Random) -> list[int]:
    """Return the places between polls."""
    often = random.choice((0.0, 0.2, 0.5))
    return [0, *(place for place in range(1, count) if random.random() < often), count]


def content(table: Table) -> dict[str, object]:
    """Return the records of a table; sets in a state have no order in its bytes.

    The cuts decide into which pages all is put, and into which classes the slices.
    """
    kinds = "s/", "c/", "g/"
    found: dict[str, object] = {key: data for key, data in table.items() if not key.startswith(kinds)}
    named: set[str] = set()
    for key, data in table.items():
        if key.startswith("s/"):
            head, name = decode_head(data), key.removeprefix("s/")
            partition = partition_of(name, PARTITIONS)
            keys = keys_of_session(partition, name, head)
            stored = [table.get(each) for each in keys]
            state = decode_session(data, stored[: head.chunks], stored[head.chunks :])
            found[key] = head.offset, head.due, state.session, without_slices(state.judging)
            named.update(keys)
    assert named == {key for key in table if key.startswith(("c/", "g/"))}
    return found


def without_slices(judging: JudgingState) -> JudgingState:
    """Return the judging of a session without its slices."""
    if judging.carried is None:
        return judging
    carried = msgspec.structs.replace(judging.carried, sliced=CarriedSlices(), events=[], runs=b"")
    return msgspec.structs.replace(judging, carried=carried)


@given(st.integers(0, 1 << 30), st.booleans(), st.sampled_from([700, 100_000]))
@settings(max_examples=40)
def test_any_cutting_into_polls_gives_the_same(seed: int, finish: bool, bytes_max: int) -> None:
    """The outputs are equal, byte by byte and in order, and so is the final state."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rule_sets, "RuleSetJudge", Fragile)
        patch_pages(patched)
        judge, records, random = stage(finish, bytes_max), records_of(seed), Random(seed)
        wanted: Table = {}
        outputs = run(judge, wanted, records, random, one_by_one=True)
        for _ in range(2):
            table: Table = {}
            assert run(judge, table, records, random) == outputs
            assert content(table) == content(wanted)


@given(st.integers(0, 1 << 30), st.booleans(), st.sampled_from([700, 100_000]))
@settings(max_examples=40)
def test_a_crash_anywhere_in_a_poll_loses_and_doubles_nothing(
    seed: int, finish: bool, bytes_max: int
) -> None:
    """A reader that drops outputs by their marks reads those of a monitor that never crashed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rule_sets, "RuleSetJudge", Fragile)
        patch_pages(patched)
        judge, records, random = stage(finish, bytes_max), records_of(seed), Random(seed)
        wanted = run(judge, {}, records, random, one_by_one=True)
        place = random.randrange(len(records))
        before: Table = {}
        durable_before = run(judge, before, records[:place], random)
        # One message is one poll here, and the rest another; the third ends anywhere between.
        ends = {place + 1, random.randint(place + 1, len(records)), len(records)}
        for end in sorted(ends):
            table = dict(before)
            durable = durable_before + crash(
                table, judge.step(begun(judge, table), records[place:end]), random
            )
            durable += run(judge, table, records[random.randint(0, place) :], random)
            assert first_of_each_mark(durable) == first_of_each_mark(wanted)
            assert set(map(repr, letters(durable))) == set(map(repr, letters(wanted)))


def test_slices_have_pages_in_these_laws() -> None:
    """A session with a slice has pages of it in the table, and pages that are deleted again."""
    written, deleted = 0, 0
    with pytest.MonkeyPatch.context() as patched:
        patch_pages(patched)
        for seed in range(20):
            judge, table = stage(True, 100_000), dict[str, bytes]()
            state = begun(judge, table)
            for record in records_of(seed):
                result = judge.step(state, [record])
                pages = [each for its in result.writes.values() for each in its if each[0].startswith("g/")]
                written += sum(value is not None for _, value in pages)
                deleted += sum(value is None for _, value in pages)
                for writes in result.writes.values():
                    write(table, writes)
                state.apply(result.writes)
    assert min(written, deleted) >= 50, (written, deleted)


def crash(table: Table, result: MonitorResult, random: Random) -> list[Output]:
    """Return the outputs that a crash leaves, and leave some of the writes if these are all."""
    if random.random() < 0.4:
        return list(result.outputs[: random.randint(0, len(result.outputs))])
    writes = [each for its_writes in result.writes.values() for each in its_writes]
    write(table, writes[: random.randint(0, len(writes))])
    return list(result.outputs)


def letters(outputs: Sequence[Output]) -> list[Output]:
    """Return the dead letters."""
    return [output for output in outputs if output.topic is Topic.DEAD_LETTER]


def first_of_each_mark(outputs: Sequence[Output]) -> dict[tuple[Topic, int], list[bytes]]:
    """Return what a reader of each topic and partition takes: outputs above the last mark."""
    last: dict[tuple[Topic, int], Mark] = {}
    taken: dict[tuple[Topic, int], list[bytes]] = {}
    for output in outputs:
        data = output.value or b""
        if output.topic is Topic.JUDGED:
            mark = decode_judged(data).mark
        elif output.topic is Topic.VERDICTS:
            mark = decode_verdicts(data).mark
        else:
            continue
        key = output.topic, mark.partition
        if key not in last or mark > last[key]:
            last[key] = mark
            taken.setdefault(key, []).append(data)
    return taken
