"""The state that a rekeyer stores of traces: entries, of which all but the first hold only the changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import msgspec
import pytest
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.error import StreamError
from tracline.stream.group.rekey_state import FACTS, STATE_VERSION
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic

from ...support.conversations.keyed import (
    SETTINGS,
    SOURCES,
    Work,
    batches_of,
    candidates_of,
    pure,
    rekeyer,
    work,
)
from ...support.conversations.scripts import START_NS
from ...support.processes.live import Encoding, wire
from ...support.sources import Source

ROOT = "f" * 16


def chat(number: int, trace: str, *, speaks: bool = False, size: int = 1_000) -> Span:
    """A span of a call under a root, with so long a text; with `speaks` it names its session itself."""
    about = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": f'[{{"role":"user","parts":[{{"type":"text","content":"{"x" * size}"}}]}}]',
    }
    if speaks:
        about |= {"gen_ai.conversation.id": trace, "gen_ai.agent.name": "desk"}
    end = START_NS + number * NS
    return Span(trace, f"{number:016x}", ROOT, "chat", end - 1, end, attributes=about)


def root(trace: str, number: int) -> Span:
    """The span above those, which names their session."""
    about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": trace}
    end = START_NS + number * NS
    return Span(trace, ROOT, None, "agent", START_NS, end, attributes={**about, "gen_ai.agent.name": "desk"})


def follow(stored: dict[str, list[bytes]], source: Source) -> int:
    """Store what a source gives; how many bytes that were."""
    written = 0
    for trace_id, entry in source.entries():
        if entry is None:
            stored.pop(trace_id, None)
            continue
        written += len(entry.data)
        stored[trace_id] = [entry.data] if entry.is_whole else [*stored[trace_id], entry.data]
    return written


def state(source: Source) -> tuple[object, ...]:
    """All that a source remembers, of what is stored, too."""
    traces = source.state.traces
    return dict(traces.traces), set(traces.waiting), traces.chars, dict(source.sizes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_entries_hold_the_state_of_the_traces(seed: int) -> None:
    """After whatever has come and gone on, many times in a row or none: traces, what waits, and its room."""
    random = Random(seed)
    settings = SessionSettings(lateness_s=3, hold_s=20, idle_s=random.choice((1, 30)))
    source, stored = Source(settings), dict[str, list[bytes]]()
    lengths = set[int]()
    for number in range(1, 150):
        trace = f"{random.choice('abcde') * 32}"
        size, speaks = random.choice((0, 50, 3_000)), random.random() < 0.3
        span = root(trace, number) if random.random() < 0.1 else chat(number, trace, speaks=speaks, size=size)
        source.add_request(Decoded((span,)), span.end - random.randint(-1, 2) * NS)
        for _ in range(random.choice((0, 1, 1, 2))):
            list(source.release(source.record_time))
        if random.random() < 0.5:
            follow(stored, source)
            restored = Source(settings, stored, source.state.times)
            assert state(restored) == state(source)
            lengths |= {len(entries) for entries in stored.values()}
            if random.random() < 0.3:
                source = restored
    assert {1, 2, 3} <= lengths


def written_for(spans: Sequence[Span]) -> tuple[int, int]:
    """The bytes that a rekeyer reads and those that it stores, where each record has one span."""
    rekey, came, stored = rekeyer(SessionSettings(lateness_s=1, hold_s=86_400)), 0, 0
    rekey.assign(0, {})
    for offset, span in enumerate(spans):
        record = Record(0, offset, span.end, wire([span], Encoding.PROTOBUF))
        came += len(record.value)
        outputs = rekey.take([record]).outputs
        stored += sum(len(out.value or b"") for out in outputs if out.topic is Topic.REKEY_STATE)
    return came, stored


@pytest.mark.slow
@pytest.mark.parametrize("speaks", [False, True])
def test_what_is_written_grows_no_faster_than_what_comes(*, speaks: bool) -> None:
    """A trace of a thousand spans, which wait for their root or go on at once."""
    trace = "a" * 32
    for count in (100, 1_000):
        spans = [chat(number, trace, speaks=speaks) for number in range(1, count)]
        came, stored = written_for([*spans, root(trace, count)])
        assert stored < 4 * came


def test_spans_that_have_gone_on_are_not_stored() -> None:
    """Once the root has come little is stored of a trace, however much has waited."""
    source, stored = Source(SessionSettings(lateness_s=0)), dict[str, list[bytes]]()
    trace = "a" * 32
    for span in (*(chat(number, trace) for number in range(1, 50)), root(trace, 50)):
        source.add_request(Decoded((span,)), span.end)
        list(source.release(source.record_time))
        follow(stored, source)
    assert source.waiting == 0
    assert len(stored[trace]) == 1
    assert len(stored[trace][0]) < 50 * 500


def of_version_1(records: Mapping[str, bytes]) -> dict[str, bytes]:
    """The state of a source as version 1 of it was: of each trace one entry, in pieces."""
    entries: dict[str, list[bytes]] = {}
    for key in sorted(records.keys() - {FACTS}, key=lambda key: int(key.rpartition("/")[2])):
        version, continues, data = records[key][0], records[key][1], records[key][2:]
        assert (version, continues) == (STATE_VERSION, 0)
        entries.setdefault(key.rpartition("/")[0], []).append(data)
    written = {FACTS: bytes([1]) + records[FACTS][1:]}
    for trace_id, opened in Source(SETTINGS, entries).state.traces.traces.items():
        data = msgspec.msgpack.encode(opened)
        for begin in range(0, len(data), 700):
            written[f"{trace_id}/{begin // 700}"] = bytes([1]) + data[begin : begin + 700]
    return written


@pytest.mark.slow
def test_state_of_version_1_is_continued() -> None:
    """A rekeyer that finds it sends what the one before would have sent, and writes behind it."""
    done: Work = work(range(10))
    half = len(done.records) // 2
    state: list[dict[str, bytes]] = [{} for _ in range(SOURCES)]
    sent = []

    def carry(begin: int, end: int) -> None:
        for record in done.records[begin:end]:
            rekey = rekeyer()
            rekey.assign(record.partition, state[record.partition])
            part = rekey.take([record])
            sent.extend(batches_of(part))
            for output in part.outputs:
                if output.topic is Topic.REKEY_STATE:
                    assert output.key is not None
                    if output.value is None:
                        del state[record.partition][output.key]
                    else:
                        state[record.partition][output.key] = output.value

    carry(0, half)
    state = [of_version_1(stored) for stored in state]
    assert sum(key.endswith("/1") for stored in state for key in stored) > 1
    carry(half, len(done.records))
    assert candidates_of(sent) == pure(done.records)


@pytest.mark.parametrize(
    "records",
    [
        {"/1": b"\x02\x00"},
        {"/0": b"\x02\x01"},
        {"/0": b"\x02"},
        {"/0": b"\x02\x00damaged"},
        {"/0": b"\x02\x00" + msgspec.msgpack.encode({}), "/1": b"\x02\x00" + msgspec.msgpack.encode([[3]])},
        {"/0": b"\x02\x00" + msgspec.msgpack.encode({}), "/2": b"\x02\x00" + msgspec.msgpack.encode([])},
    ],
)
def test_entries_that_are_not_whole_are_refused(records: dict[str, bytes]) -> None:
    """A chunk is missing, or a value is impossible."""
    with pytest.raises(StreamError) as refused:
        rekeyer().assign(0, {f"{'a' * 32}{key}": value for key, value in records.items()})
    assert refused.value.code == "TRL731"
