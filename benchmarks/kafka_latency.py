"""How long a verdict takes: from a span to what the monitor says of its event, at a steady rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from desk_spans import desk_spans, moved, traces
from kafka import KafkaProducer
from kafka_run import Ground, Reader, closing_spans, judged_until, source_of
from tracline.rules.packs.load import shipped_packs
from tracline.schemas.event import Kind
from tracline.schemas.span import Span
from tracline.schemas.time import NS, rfc3339
from tracline.stream.messages.codec import decode_judged, decode_verdicts
from tracline.stream.messages.topics import Topic

from tests.support.otlp_requests import to_otlp

RATE = 100.0
"""Spans a second."""
SPANS = 2_000
WARM = 400
"""Spans that do not count: the first ones start the machinery."""
LATENESS_S, TICK_S = 1.0, 0.2


@dataclass(frozen=True)
class Delays:
    """Seconds from a span's being sent to the broker's having what was said of its event.

    `busy` is the share of a core that a process used meanwhile.
    """

    events: int
    rate: float
    p50: float
    p99: float
    busy: Mapping[str, float]
    lateness_s: float = LATENESS_S
    tick_s: float = TICK_S


def delays(ground: Ground) -> Delays:
    """Send spans at a steady rate, each trace as if it had ended just now, and see when verdicts come."""
    ground.sessions = {"lateness_s": LATENESS_S, "tick_s": TICK_S, "idle_s": 3600, "hold_s": 60}
    ground.make_topics()
    with ground.running("rekey") as rekey, ground.running("monitor", "--rules", *shipped_packs()) as monitor:
        rekey.said("goes on with")
        monitor.said("goes on with")
        sent: dict[str, int] = {}
        every = desk_spans(SPANS)
        began, before = time.monotonic(), (rekey.cpu, monitor.cpu)
        _send(ground, traces(every), sent)
        took_s = time.monotonic() - began
        busy = {"rekey": (rekey.cpu - before[0]) / took_s, "monitor": (monitor.cpu - before[1]) / took_s}
        judged_until(ground, rfc3339(time.time_ns()), monitor)
    counted = set(list(sent)[WARM * len(sent) // len(every) :])
    found = sorted((at - sent[trace_id]) / NS for trace_id, at in _said(ground) if trace_id in counted)
    middle, late = found[len(found) // 2], found[len(found) * 99 // 100]
    return Delays(len(found), len(every) / took_s, middle, late, busy)


def _send(ground: Ground, every: Sequence[list[Span]], sent: dict[str, int]) -> None:
    """Send each trace when its turn comes; note when, by trace."""
    producer: Any = KafkaProducer(bootstrap_servers=[ground.broker.bootstrap], linger_ms=0)
    began, spans = time.monotonic(), 0
    for own in every:
        threading.Event().wait(max(0.0, began + spans / RATE - time.monotonic()))
        spans += len(own)
        now = time.time_ns()
        trace_id = own[0].trace_id
        body = to_otlp(list(moved(own, now - max(span.end for span in own)))).SerializeToString()
        sent[trace_id] = now
        producer.send(ground.kafka.spans_topic, body, trace_id.encode(), partition=source_of(trace_id))
    for own in closing_spans(time.time_ns() + 2 * NS, 3):
        producer.send(
            ground.kafka.spans_topic, to_otlp(own).SerializeToString(), partition=source_of(own[0].trace_id)
        )
    producer.flush()
    producer.close()


def _said(ground: Ground) -> list[tuple[str, int]]:
    """The trace of each judged event, and when the broker had the verdicts and statuses that came of it.

    Events of messages that changed no status are left out.
    """
    reader = Reader(ground, ground.kafka.topic(Topic.VERDICTS))
    when: dict[tuple[int, int], int] = {}
    for record in reader.all():
        told = decode_verdicts(record.value)
        if told["verdicts"] or told["session_status"]:
            when[told["partition"], told["offset"]] = record.timestamp * 1_000_000
    reader.close()
    reader = Reader(ground, ground.kafka.topic(Topic.JUDGED))
    found: list[tuple[str, int]] = []
    for record in reader.all():
        judged = decode_judged(record.value)
        at = when.get((judged.mark.partition, judged.mark.offset))
        if at is not None:
            found += [
                (event.trace_id, at)
                for event in judged.events
                if event.kind is not Kind.END and event.trace_id is not None
            ]
    reader.close()
    return found
