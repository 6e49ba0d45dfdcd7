"""The simulated bot for `pipeline.py`: conversations that last seconds, a spike among them, and a past."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from ..schemas.time import NS
from .desk.bot import Desk, DeskConversation, conversations
from .desk.scene import Break
from .instrumented_bot import DELAY_MS, QUEUE_SPANS_MAX, Receipts, converse, named

Breach = tuple[str, str, str]
"""Pack, rule and session id."""


@dataclass(frozen=True)
class Plan:
    """How many conversations there are: in the past, and before, during and after the spike.

    `rate` is the share of conversations in which the agent sets out to break some rule, `spike_rate` that in
    which it breaks the spike's one during the spike. A second of a conversation lasts `pace_s`.
    """

    past: int = 1_000
    before: int = 80
    spike: int = 60
    after: int = 40
    kind: Break = Break.CONFIRM_REFUND
    rate: float = 0.1
    spike_rate: float = 0.6
    pace_s: float = 0.005
    at_once: int = 12

    @property
    def rule(self) -> tuple[str, str]:
        """Pack and rule of the spike."""
        return cast("tuple[str, str]", self.kind.value)

    @property
    def rates(self) -> Mapping[Break, float]:
        """The share of each break when there is no spike."""
        return dict.fromkeys(Break, self.rate / len(Break))


PLAN = Plan()


@dataclass(frozen=True)
class BotReport:
    """What the bot did: the rules it broke, when the spike began and ended (ns), and how much it sent."""

    breaks: frozenset[Breach]
    spike: tuple[int, int]
    sessions: int
    spans: int
    took_s: float


def past_archive(folder: Path) -> None:
    """An archive of conversations without a spike, at the pace of those to come."""
    from ..archive.manifest import ManifestSource
    from ..archive.writer import archive_writer
    from .desk.formats import event_frame

    told = list(_past())
    with archive_writer(folder) as writer:
        writer.write(event_frame(told), ManifestSource("past", "0" * 64), (0, len(told) - 1))


def _past() -> Iterator[DeskConversation]:
    """The conversations of the past, a few at a time; all are over by now."""
    desk = Desk(sessions=PLAN.past, seed=1, rates=PLAN.rates, spike=None)
    told = list(conversations(desk))
    lasting = [(one.steps[-1].time_ns - one.start_ns) * PLAN.pace_s for one in told]
    apart = round(sum(lasting) / len(told) / PLAN.at_once)
    first = time.time_ns() - 2 * apart * len(told) - 600 * NS
    for number, one in enumerate(told):
        yield _at(one, first + number * apart)


def _at(conversation: DeskConversation, start: int) -> DeskConversation:
    """The conversation at that time, as quick as all."""

    def moved(at: int) -> int:
        return start + round((at - conversation.start_ns) * PLAN.pace_s)

    steps = tuple(replace(step, time_ns=moved(step.time_ns)) for step in conversation.steps)
    return replace(conversation, start_ns=start, steps=steps)


def talk(bootstrap: str) -> BotReport:
    """Hold the conversations, and send their spans to Kafka; returns when all have arrived there."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

    from ..stream.kafka.care.exporter import KafkaSpanExporter
    from ..stream.kafka.settings import KafkaSettings

    receipts = Receipts(KafkaSpanExporter(KafkaSettings((bootstrap,))))
    provider = TracerProvider(resource=Resource.create({"service.name": "support-desk"}))
    provider.add_span_processor(BatchSpanProcessor(cast("SpanExporter", receipts), QUEUE_SPANS_MAX, DELAY_MS))
    spiking = {**PLAN.rates, PLAN.kind: PLAN.spike_rate}
    stretches = (
        ("before", Desk(sessions=PLAN.before, seed=2, rates=PLAN.rates, spike=None)),
        ("spike", Desk(sessions=PLAN.spike, seed=3, rates=spiking, spike=None)),
        ("after", Desk(sessions=PLAN.after, seed=4, rates=PLAN.rates, spike=None)),
    )
    breaks: set[Breach] = set()
    times = [time.time_ns()]
    for prefix, desk in stretches:
        told = list(conversations(desk))
        asyncio.run(converse(told, provider, PLAN.pace_s, PLAN.at_once, prefix))
        times.append(time.time_ns())
        breaks |= _breaks(told, prefix)
    provider.force_flush()
    provider.shutdown()
    assert not receipts.lost, "Kafka did not take all spans"
    took_s = (times[-1] - times[0]) / NS
    sessions = PLAN.before + PLAN.spike + PLAN.after
    return BotReport(frozenset(breaks), (times[1], times[2]), sessions, receipts.sent, took_s)


def _breaks(told: Sequence[DeskConversation], prefix: str) -> set[Breach]:
    """The rules that were broken in these conversations."""
    return {
        (*cast("tuple[str, str]", kind.value), named(one, prefix).session_id)
        for one in told
        for kind in one.breaks
    }
