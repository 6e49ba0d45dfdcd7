"""Log records over a real broker: joined to their spans partition by partition.

The events that must come are those in the scripts of the recorded agents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tracline.stream.group.client import OutgoingRecord
from tracline.stream.kafka.settings import KafkaSettings

from ..support.brokers.sending import send_records
from ..support.conversations.keyed import source_of
from ..support.conversations.log_records import (
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
from ..support.processes.rekeying import (
    batches,
    delete_topic,
    here,
    letters,
    make_topics,
    process,
    until,
    until_carried,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def kafka(kafka: KafkaSettings) -> KafkaSettings:
    """The shared broker with the topics of this test."""
    make_topics(kafka)
    return kafka


@dataclass
class Clock:
    """The time, as the test sets it (ns since the epoch)."""

    now: int

    def __call__(self) -> int:
        """Return it."""
        return self.now


def send(kafka: KafkaSettings, sent: list[Sent]) -> None:
    """Send records to the partitions of their traces."""
    records = [
        OutgoingRecord(kafka.topic(topic), source_of(trace_id), trace_id.encode(), value)
        for topic, trace_id, value in sent
    ]
    send_records(kafka, records)


def test_candidates_have_the_content_of_log_records(kafka: KafkaSettings, tmp_path: Path) -> None:
    """Each event comes once and whole, though one process after the other has read a part.

    `tests/unit/stream/group/test_log_records_process.py` has every order of arrival.
    """
    name = RECORDINGS[2]
    clock = Clock(ended(recorded(name)[0]))
    for number, portion in enumerate(portions(name, "interleaved")):
        send(kafka, portion)
        with here(kafka, instance=f"{number}", sessions=SETTINGS, now=clock, reads_logs=True):
            until_carried(kafka)
    assert not [session_candidate for batch in batches(kafka) for session_candidate in batch.candidates], (
        "nothing is due yet"
    )
    clock.now += DAY
    with here(kafka, instance="last", sessions=SETTINGS, now=clock, reads_logs=True) as last:
        until("all went on", lambda: last.count("tracline_rekey_candidates_total"))
        until("none waits", lambda: not last.count("tracline_spans_waiting"))
        assert last.count("tracline_log_records_unjoined_total", reason="without_span") == 0
    assert last.error is None
    assert not letters(kafka)
    assert wrong(name, assembled(batches(kafka), clock.now), tmp_path) == []


def test_without_the_topic_spans_are_carried_as_before(kafka: KafkaSettings) -> None:
    """The process reports once that no log records are read, and carries the spans."""
    delete_topic(kafka, kafka.logs_topic)
    spans, _ = recorded(RECORDINGS[0])
    with process(kafka, sessions=replace(SETTINGS, lateness_s=0)) as running:
        send(kafka, spans)
        until("candidates come", lambda: any(batch.candidates for batch in batches(kafka)))
        running.process.terminate()
        assert running.ended() == 0, running.lines
        (warning,) = [line for line in running.lines if kafka.logs_topic in line]
    assert "not reading log records" in warning
