"""Rekeyer and monitor go on from the states that earlier releases wrote.

`stored/state_of_20261122` has the output of the release of that day after four fifths of the records of
`keyed.work(range(12), apart_s=400)`: state topics, judged events and verdicts, and as the expectation the ids
of its verdicts and events at the end. `state_of_20261123` has that of the last commit before sessions in
assembly had pages, after three fifths of `keyed.work(range(30, 44), apart_s=90)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.incremental.carried import Carried
from tracline.rules.incremental.carry_layout import CarryLayout
from tracline.rules.incremental.continue_judging import continue_judging
from tracline.rules.labels.labelled_rows import ListedEvents
from tracline.rules.model.rule import stopping
from tracline.schemas.event import Event
from tracline.schemas.records.verdict_record import encode_verdict
from tracline.schemas.time import rfc3339
from tracline.stream.messages.codec import Activation, decode_judged, decode_verdicts, encode
from tracline.stream.messages.monitor_state import decode_session
from tracline.stream.messages.record import Record
from tracline.stream.messages.risk_messages import decode_risk
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.monitor import MonitorStage
from tracline.stream.stages.monitor_step import MonitorOptions
from tracline.stream.stages.schedule import MonitorState

from ...support.chains.chains_by_symbol import CHAIN, ChainsByState
from ...support.conversations.keyed import BYTES_MAX, PARTITIONS, SETTINGS, SOURCES, START_NS, rekeyer
from ...support.conversations.rule_sessions import random_sessions, rule_set

STORED = Path(__file__).parent / "stored"
CARRIED = STORED / "carried_of_20261123.msgpack.zst"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("day", "begin_later", "is_followed"),
    [("20261122", False, False), ("20261123", True, False), ("20261123", True, True)],
)
def test_what_the_release_before_began_comes_to_its_end(
    day: str, begin_later: bool, is_followed: bool
) -> None:
    """Verdicts and events of both releases together are those of the release before alone.

    Where sessions begin later, which this release judges by its own semantics, its rules stop, too. Where a
    chain comes into force first, it follows those sessions, and none that the release before began.
    """
    data = zstandard.ZstdDecompressor().decompress((STORED / f"state_of_{day}.msgpack.zst").read_bytes())
    stored: dict[str, Any] = msgspec.msgpack.decode(data)
    assert stored["rekey"]
    assert len(stored["monitor"]) > PARTITIONS
    written = {Topic.VERDICTS: list(stored["verdicts"]), Topic.JUDGED: list(stored["judged"])}
    began = len(_verdict_ids(written[Topic.VERDICTS]))
    rules = {name: _stopping(text) if begin_later else text for name, text in stored["rules"].items()}
    before = [event for value in stored["judged"] for event in decode_judged(value).events]
    occurrences = {(event.session_id, rfc3339(event.occurrence)) for event in before}
    followed: set[tuple[str, str]] = set()
    for topic, value in _finished(stored, rules, is_followed=is_followed):
        if topic is Topic.RISK:
            followed |= {(each.session_id, each.occurrence) for each in decode_risk(value).crossings}
        else:
            written[topic].append(value)
    assert bool(followed) is is_followed
    assert not followed & occurrences
    assert 0 < began < len(stored["verdict_ids"])
    assert _verdict_ids(written[Topic.VERDICTS]) == stored["verdict_ids"]
    events = sorted(
        [e.session_id, e.seq, e.event_id] for v in written[Topic.JUDGED] for e in decode_judged(v).events
    )
    assert events == stored["events"]


def _verdict_ids(messages: list[bytes]) -> list[str]:
    return sorted(record.id for message in messages for record in decode_verdicts(message).verdicts)


def _stopping(pack: str) -> str:
    """Return the text of a pack whose rules stop at an unknown, as those of earlier releases did."""
    return re.sub(r"^( *)- id: .*$", r"\g<0>\n\1  unknown: stop", pack, flags=re.MULTILINE)


def _finished(
    stored: dict[str, Any], rules: dict[str, str], *, is_followed: bool
) -> list[tuple[Topic, bytes]]:
    """Return the messages that this release writes, from the stored state to the last record."""
    rekey = rekeyer()
    for source in range(SOURCES):
        rekey.assign(source, stored["rekey"][str(source)])
    table: dict[str, bytes] = dict(stored["monitor"])
    options = MonitorOptions(SETTINGS, partitions=PARTITIONS, bytes_max=BYTES_MAX, rules=rules)
    monitor, state = MonitorStage(options, ChainsByState()), MonitorState(table)
    monitor.restore(state, range(PARTITIONS), list(table.items()))
    written: list[tuple[Topic, bytes]] = []
    offsets: list[int] = list(stored["offsets"])

    def take(partition: int, value: bytes) -> None:
        record = Record(partition, offsets[partition], START_NS, value)
        offsets[partition] += 1
        step = monitor.step(state, [record])
        for key, data in step.writes.get(partition, ()):
            if data is None:
                table.pop(key, None)
            else:
                table[key] = data
        state.apply(step.writes)
        written.extend((output.topic, output.value or b"") for output in step.outputs)

    for partition in range(PARTITIONS) if is_followed else ():
        take(partition, encode(Activation(rules, chain=CHAIN)))
    for partition, offset, time, value in stored["records"]:
        for output in rekey.take([Record(partition, offset, time, value)]).outputs:
            if output.topic is Topic.EVENTS and output.partition is not None:
                take(output.partition, output.value or b"")
    return written


@pytest.mark.slow
def test_slices_of_the_release_before_are_carried_on() -> None:
    """`carried_of_20261123` has records of sessions after two thirds of their events.

    The release of that day had the runs of all slices in the session's stream.
    """
    layout, count = CarryLayout(compile_rule_set(stopping(rule_set()))), 0
    stored: list[dict[str, Any]] = msgspec.msgpack.decode(
        zstandard.ZstdDecompressor().decompress(CARRIED.read_bytes())
    )
    for part in stored:
        events = random_sessions(Random(part["seed"]), 3, 60)
        assert [event.event_id for event in events] == part["events"]
        carried: dict[str, Carried] = {}
        for name, record in part["states"].items():
            state = decode_session(record).judging.carried
            assert state is not None
            assert state.version == 1
            count += sum(map(len, state.slices))
            carried[name] = state
        cut, is_satisfied = part["cut"], part["satisfied"]
        first, _ = _lines(layout, {}, events[:cut], is_satisfied)
        rest, after = _lines(layout, carried, events[cut:], is_satisfied)
        whole, _ = _lines(layout, {}, events, is_satisfied)
        assert sorted(first + rest) == sorted(whole)
        assert all(state is None or not state.slices for state in after.values())
    assert count >= 100, count


def _lines(
    layout: CarryLayout, carried: dict[str, Carried], events: Sequence[Event], is_satisfied: bool
) -> tuple[list[bytes], dict[str, Carried | None]]:
    """Return the records of these events, and what is carried after them."""
    rows = layout.compiled.labeler.label_rows(ListedEvents(events))
    done = continue_judging(layout, carried, rows, np.zeros(len(rows), np.int64), satisfied=is_satisfied)
    return [encode_verdict(record) for each in done.outcomes for record in each.records], done.carried
