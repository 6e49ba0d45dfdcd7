"""The delay from a span to the verdicts on its event, at a steady rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracline.rules.packs.load import shipped_packs
from tracline.schemas.event import Kind
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.stream.messages.codec import decode_judged, decode_verdicts
from tracline.stream.messages.topics import Topic

from benchmarks.desk_spans import desk_spans, moved, traces
from benchmarks.kafka.processes import Reader, Setup, closing_spans, judged_until, source_of
from tests.support.brokers.sending import sending
from tests.support.otlp_requests import to_otlp

RATE = 100.0
"""Spans a second."""
SPANS = 2_000
WARM = 400
"""The first spans, which do not count: they warm up the processes."""
LATENESS_S, TICK_S = 1.0, 0.2


@dataclass(frozen=True)
class Delays:
    """Seconds from sending a span until the broker has the verdicts on its event.

    `busy` is the share of a core that a process used meanwhile.
    """

    events: int
    rate: float
    p50: float
    p99: float
    busy: Mapping[str, float]
    lateness_s: float = LATENESS_S
    tick_s: float = TICK_S


def delays(setup: Setup) -> Delays:
    """Send spans at a steady rate, each trace as if it had just ended, and measure the delays."""
    setup.sessions = {"lateness_s": LATENESS_S, "tick_s": TICK_S, "idle_s": 3600, "hold_s": 60}
    setup.make_topics()
    with setup.running("rekey") as rekey, setup.running("monitor", "--rules", *shipped_packs()) as monitor:
        rekey.wait_for_log("assigned partitions")
        monitor.wait_for_log("assigned partitions")
        sent: dict[str, int] = {}
        every = desk_spans(SPANS)
        began, before = time.monotonic(), (rekey.cpu, monitor.cpu)
        _send(setup, traces(every), sent)
        took_s = time.monotonic() - began
        busy = {"rekey": (rekey.cpu - before[0]) / took_s, "monitor": (monitor.cpu - before[1]) / took_s}
        judged_until(setup, time.time_ns(), monitor)
    counted = set(list(sent)[WARM * len(sent) // len(every) :])
    found = sorted((at - sent[trace_id]) / NS for trace_id, at in _times(setup) if trace_id in counted)
    middle, late = found[len(found) // 2], found[len(found) * 99 // 100]
    return Delays(len(found), len(every) / took_s, middle, late, busy)


def _send(setup: Setup, every: Sequence[list[Span]], sent: dict[str, int]) -> None:
    """Send each trace at its time; record the times by trace."""
    topic = setup.kafka.spans_topic
    with sending(setup.kafka, **{"linger.ms": 0}) as producer:
        began, spans = time.monotonic(), 0
        for spans_sent in every:
            threading.Event().wait(max(0.0, began + spans / RATE - time.monotonic()))
            spans += len(spans_sent)
            now = time.time_ns()
            trace_id = spans_sent[0].trace_id
            body = to_otlp(
                list(moved(spans_sent, now - max(span.end for span in spans_sent)))
            ).SerializeToString()
            sent[trace_id] = now
            producer.produce(topic, body, trace_id.encode(), source_of(trace_id))
        for spans_sent in closing_spans(time.time_ns() + 2 * NS, 3):
            body, source = to_otlp(spans_sent).SerializeToString(), source_of(spans_sent[0].trace_id)
            producer.produce(topic, body, partition=source)


def _times(setup: Setup) -> list[tuple[str, int]]:
    """Return the trace of each judged event, and when the broker had its verdicts and statuses.

    Events of messages that changed no status are left out.
    """
    reader = Reader(setup, setup.kafka.topic(Topic.VERDICTS))
    when: dict[tuple[int, int], int] = {}
    for record in reader.all():
        message = decode_verdicts(record.value)
        if message.verdicts or message.statuses:
            when[message.mark.partition, message.mark.offset] = record.timestamp * 1_000_000
    reader.close()
    reader = Reader(setup, setup.kafka.topic(Topic.JUDGED))
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
