"""The records of the state topic of the rekeyer.

The state of a source is one record of its times, under the key `FACTS`, and the entries of its traces
(`messages/trace_state.py`). An entry is one or more records, each of which fits into a message. Their keys
are the trace id, `/` and a number. A record is one byte with the version, one that is 1 where the record
continues the entry of the one before, and bytes of the entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from ...schemas.sessions.pending import RememberedTrace, Traces
from ..error import StreamError
from ..messages.record import Output
from ..messages.topics import Topic
from ..messages.trace_state import DAMAGES, EntrySizes, decode_trace, next_entry
from ..stages.resolve import SourceState, SourceTimes, SourceWrites
from .changed_topics import changed_counts

STATE_VERSION = 4
"""The version of the records.

Versions 1 to 3 are read as well: of them each span has its content. Of version 1 a trace is one entry, and of
versions 1 and 2 no log record waits.
"""
_FIRST_HEAD, _NEXT_HEAD = bytes([STATE_VERSION, 0]), bytes([STATE_VERSION, 1])
FACTS = "@source"
"""The key of the record of a source's times; no trace id begins with `@`."""


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """The numbers of partitions of the topics of spans and of events."""

    sources: int
    partitions: int


class StoredTrace(msgspec.Struct, frozen=True):
    """The records of a trace in the state topic: how many there are, and the sizes of its entries."""

    records: int
    sizes: EntrySizes


@dataclass(slots=True)
class AssignedSource:
    """A source that is assigned to a process: its state, and what the state topic has of each trace."""

    state: SourceState = field(default_factory=SourceState)
    stored: dict[str, StoredTrace] = field(default_factory=dict[str, StoredTrace])

    def apply(self, writes: AssignedSourceWrites) -> None:
        """Become what a step has made of this source, once its records are committed."""
        self.state.apply(writes.state)
        for trace_id, stored in writes.stored.items():
            if stored is None:
                self.stored.pop(trace_id, None)
            else:
                self.stored[trace_id] = stored


@dataclass(frozen=True, slots=True)
class AssignedSourceWrites:
    """The changes of an assigned source: those of its state, and of each stored trace (None: deleted)."""

    state: SourceWrites
    stored: Mapping[str, StoredTrace | None]


class _Facts(msgspec.Struct, frozen=True):
    """The content of the record of a source's times."""

    watermark: int
    record_time: int
    sources: int
    partitions: int
    spans_time: int | None = None
    logs_time: int | None = None


_FACTS_ENCODER = msgspec.msgpack.Encoder()
_FACTS_DECODER = msgspec.msgpack.Decoder(_Facts)


def write_source(
    number: int, source: AssignedSource, writes: SourceWrites, counts: TopicCounts, bytes_max: int
) -> tuple[AssignedSourceWrites, list[Output]]:
    """Return the changes of a source, and the records that bring the state topic up to date with them."""
    records: list[Output] = []
    topic = Topic.REKEY_STATE
    after: dict[str, StoredTrace | None] = {}
    for trace_id, changes in writes.traces.changes.items():
        opened, stored = writes.traces.opened[trace_id], source.stored.get(trace_id)
        before = 0 if stored is None else stored.records
        count, sizes = 0, EntrySizes(0, 0)
        if opened is not None:
            entry = next_entry(opened, changes, None if stored is None else stored.sizes)
            count, sizes = 0 if entry.is_whole else before, entry.sizes
            parts = (entry.data,) if len(entry.data) <= bytes_max else _cut(entry.data, bytes_max)
            head = _FIRST_HEAD
            for part in parts:
                records.append(Output(topic, number, f"{trace_id}/{count}", head + part))
                head, count = _NEXT_HEAD, count + 1
        records += [Output(topic, number, f"{trace_id}/{index}", None) for index in range(count, before)]
        after[trace_id] = StoredTrace(count, sizes) if count else None
    times = writes.times
    facts = _Facts(times.watermark, times.record, counts.sources, counts.partitions, times.spans, times.logs)
    value = bytes([STATE_VERSION]) + _FACTS_ENCODER.encode(facts)
    records.append(Output(Topic.REKEY_STATE, number, FACTS, value))
    return AssignedSourceWrites(writes, after), records


def read_source(records: Mapping[str, bytes], counts: TopicCounts) -> AssignedSource:
    """Return a source of its records in the state topic (the latest of each key).

    Raises StreamError where another release wrote them (TRL731), or a number of partitions has changed
    (TRL732).
    """
    facts, entries, numbers = _read_records(records)
    if facts is not None and TopicCounts(facts.sources, facts.partitions) != counts:
        what = (
            f"the topics had {facts.sources} partitions of spans and {facts.partitions} of events, "
            f"and have {counts.sources} and {counts.partitions}"
        )
        raise changed_counts(what)
    traces: dict[str, RememberedTrace] = {}
    stored: dict[str, StoredTrace] = {}
    try:
        for trace_id, parts in entries.items():
            traces[trace_id], sizes = decode_trace(parts)
            stored[trace_id] = StoredTrace(numbers[trace_id], sizes)
    except DAMAGES:
        raise _unreadable("the rekeyer's state is damaged") from None
    in_order = dict(sorted(traces.items(), key=lambda item: (item[1].touched, item[0])))
    return AssignedSource(SourceState(Traces(in_order), _times(facts)), stored)


def _times(facts: _Facts | None) -> SourceTimes:
    if facts is None:
        return SourceTimes()
    # An earlier release stored no time of spans.
    spans = facts.watermark if facts.spans_time is None else facts.spans_time
    return SourceTimes(facts.watermark, facts.record_time, spans, facts.logs_time)


def _cut(data: bytes, bytes_max: int) -> Iterator[bytes]:
    """Yield the bytes of an entry in chunks that fit into a message."""
    return (data[begin : begin + bytes_max] for begin in range(0, len(data), bytes_max))


def _read_records(
    records: Mapping[str, bytes],
) -> tuple[_Facts | None, dict[str, list[bytes]], dict[str, int]]:
    """Return a source's facts, and by trace its entries and the number of its records."""
    facts: _Facts | None = None
    chunks: dict[str, dict[int, tuple[bool, bytes]]] = {}
    for key, value in records.items():
        version = value[0] if value else "none"
        if version not in range(1, STATE_VERSION + 1):
            raise _unreadable(f"the rekeyer's state has version {version}, not {STATE_VERSION}")
        try:
            if key == FACTS:
                facts = _FACTS_DECODER.decode(value[1:])
            else:
                trace_id, _, index = key.rpartition("/")
                chunk = (int(index) > 0, value[1:]) if version == 1 else (value[1] > 0, value[2:])
                chunks.setdefault(trace_id, {})[int(index)] = chunk
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, IndexError):
            raise _unreadable("the rekeyer's state is damaged") from None
    entries = {trace_id: _entries(numbered) for trace_id, numbered in chunks.items()}
    return facts, entries, {trace_id: len(numbered) for trace_id, numbered in chunks.items()}


def _entries(chunks: Mapping[int, tuple[bool, bytes]]) -> list[bytes]:
    """Return the entries of a trace, of its chunks by number: whether one continues an entry, and bytes."""
    entries: list[bytes] = []
    for number, index in enumerate(sorted(chunks)):
        continues, data = chunks[index]
        if index != number or continues > bool(entries):
            raise _unreadable("the rekeyer's state is damaged")
        if continues:
            entries[-1] += data
        else:
            entries.append(data)
    return entries


def _unreadable(what: str) -> StreamError:
    hint = "finish the sessions with the release that wrote it, or begin with new topics"
    return StreamError("TRL731", what, hint)
