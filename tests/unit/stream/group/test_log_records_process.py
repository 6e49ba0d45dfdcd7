"""The rekeyer over the broker in memory joins log records to their spans, in any order of arrival.

The expected events are those of the scripts of the recorded agents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from tracline.stream.messages.topics import Topic

from ....support.conversations.keyed import SOURCES, source_of
from ....support.conversations.log_records import (
    DAY,
    RECORDINGS,
    SETTINGS,
    Sent,
    assembled,
    ended,
    portions,
    recorded,
    wrong,
)
from .memory_processes import NAMES, MemoryPipeline

UNJOINED = "tracline_log_records_unjoined_total"


def send(pipeline: MemoryPipeline, sent: Iterable[Sent], *, beside: int = 0) -> None:
    """Append records to the partitions of their traces, or so many partitions beside them."""
    for topic, trace_id, value in sent:
        pipeline.append(topic, (source_of(trace_id) + beside) % SOURCES, value)


@pytest.mark.slow
@pytest.mark.parametrize("arrival", ["logs first", "logs last", "interleaved", "doubled"])
@pytest.mark.parametrize("name", RECORDINGS)
def test_candidates_have_the_content_of_log_records(name: str, arrival: str, tmp_path: Path) -> None:
    """Each event comes once and whole, in any order, whichever process has read which part."""
    pipeline = MemoryPipeline(now=ended(recorded(name)[0]))
    for number, portion in enumerate(portions(name, arrival)):
        send(pipeline, portion)
        process = pipeline.rekey(f"{number}", sessions=SETTINGS, reads_logs=True)
        process.until_read(Topic.SPANS)
        process.until_read(Topic.LOGS)
        process.stop()
    assert not [candidate for batch in pipeline.batches() for candidate in batch.candidates], (
        "nothing is due yet"
    )
    pipeline.now += DAY
    last = pipeline.rekey("last", sessions=SETTINGS, reads_logs=True)
    last.until("candidates are sent", lambda: last.count("tracline_rekey_candidates_total"))
    last.until("no span waits", lambda: not last.count("tracline_spans_waiting"))
    assert last.count(UNJOINED, reason="without_span") == 0
    assert not pipeline.dead_letters()
    assert wrong(name, assembled(pipeline.batches(), pipeline.now), tmp_path) == []


def test_records_on_another_partition_are_counted_and_reported() -> None:
    """They find no span within `hold_s`; the process reports what to do, and goes on."""
    spans, logs = recorded(RECORDINGS[0])
    pipeline = MemoryPipeline(now=ended(spans))
    send(pipeline, spans)
    send(pipeline, logs, beside=1)
    process = pipeline.rekey(sessions=SETTINGS, reads_logs=True)
    process.until_read(Topic.LOGS)
    pipeline.now += DAY
    process.until("they are dropped", lambda: process.count(UNJOINED, reason="without_span") > 10)
    process.until("it is reported", lambda: any("partitioned by trace" in line for line in process.lines))
    assert process.error is None


def test_a_record_that_is_no_log_record_is_a_dead_letter() -> None:
    """The dead letter has topic, partition, offset and digest; records beside it are read."""
    _, logs = recorded(RECORDINGS[0])
    poison = b"\xff" * 20
    topic, trace_id, _ = logs[0]
    pipeline = MemoryPipeline()
    send(pipeline, [(topic, trace_id, poison), *logs])
    process = pipeline.rekey(sessions=SETTINGS, reads_logs=True)
    process.until_read(Topic.LOGS)
    process.until("log records are read", lambda: process.count("tracline_rekey_log_records_total") > 10)
    [letter] = pipeline.dead_letters()
    digest = hashlib.sha256(poison).hexdigest()
    assert (letter.topic, letter.partition, letter.offset, letter.code, letter.sha256) == (
        NAMES[Topic.LOGS], source_of(trace_id), 0, "otlp-protobuf", digest,
    )  # fmt: skip
