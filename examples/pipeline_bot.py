"""The simulated bot of `pipeline.py`: past conversations, and live ones of a few seconds with a spike."""

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
    """The numbers of conversations: in the past, and before, during and after the spike.

    `rate` is the share of conversations in which the agent tries to break some rule, `spike_rate` that in
    which it breaks the spike's rule during the spike. A second of a conversation lasts `second_s`.
    """

    past: int = 1_000
    before: int = 80
    spike: int = 60
    after: int = 40
    kind: Break = Break.CONFIRM_REFUND
    rate: float = 0.1
    spike_rate: float = 0.6
    second_s: float = 0.005
    at_once: int = 12

    @property
    def rule(self) -> tuple[str, str]:
        """Return the pack and rule of the spike."""
        return cast("tuple[str, str]", self.kind.value)

    @property
    def rates(self) -> Mapping[Break, float]:
        """Return the share of each break outside the spike."""
        return dict.fromkeys(Break, self.rate / len(Break))


PLAN = Plan()


@dataclass(frozen=True)
class BotReport:
    """The bot's report: the rules that it broke, the start and end of the spike (ns), and its totals."""

    breaks: frozenset[Breach]
    spike: tuple[int, int]
    sessions: int
    spans: int
    took_s: float


def past_archive(folder: Path) -> None:
    """Write an archive of conversations without a spike, at the pace of the live ones."""
    from ..archive.manifest import ManifestSource
    from ..archive.writer import archive_writer
    from .desk.formats import event_frame

    chats = list(_past())
    with archive_writer(folder) as writer:
        writer.write(event_frame(chats), ManifestSource("past", "0" * 64), (0, len(chats) - 1))


def _past() -> Iterator[DeskConversation]:
    """Yield the past conversations, a few concurrent ones; all have ended."""
    desk = Desk(sessions=PLAN.past, seed=1, rates=PLAN.rates, spike=None)
    chats = list(conversations(desk))
    durations = [(chat.steps[-1].time_ns - chat.start_ns) * PLAN.second_s for chat in chats]
    interval = round(sum(durations) / len(chats) / PLAN.at_once)
    first = time.time_ns() - 2 * interval * len(chats) - 600 * NS
    for number, chat in enumerate(chats):
        yield _at(chat, first + number * interval)


def _at(conversation: DeskConversation, start: int) -> DeskConversation:
    """Return the conversation at another time, at the pace of the plan."""

    def moved(at: int) -> int:
        return start + round((at - conversation.start_ns) * PLAN.second_s)

    steps = tuple(replace(step, time_ns=moved(step.time_ns)) for step in conversation.steps)
    return replace(conversation, start_ns=start, steps=steps)


def talk(bootstrap: str) -> BotReport:
    """Play the conversations, and send their spans to Kafka; return when Kafka has acknowledged all."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

    from ..stream.kafka.care.exporter import KafkaSpanExporter
    from ..stream.kafka.settings import KafkaSettings

    receipts = Receipts(KafkaSpanExporter(KafkaSettings((bootstrap,))))
    provider = TracerProvider(resource=Resource.create({"service.name": "support-desk"}))
    provider.add_span_processor(BatchSpanProcessor(cast("SpanExporter", receipts), QUEUE_SPANS_MAX, DELAY_MS))
    spiking = {**PLAN.rates, PLAN.kind: PLAN.spike_rate}
    phases = (
        ("before", Desk(sessions=PLAN.before, seed=2, rates=PLAN.rates, spike=None)),
        ("spike", Desk(sessions=PLAN.spike, seed=3, rates=spiking, spike=None)),
        ("after", Desk(sessions=PLAN.after, seed=4, rates=PLAN.rates, spike=None)),
    )
    breaks: set[Breach] = set()
    times = [time.time_ns()]
    for prefix, desk in phases:
        chats = list(conversations(desk))
        asyncio.run(converse(chats, provider, PLAN.second_s, PLAN.at_once, prefix))
        times.append(time.time_ns())
        breaks |= _breaks(chats, prefix)
    provider.force_flush()
    provider.shutdown()
    assert not receipts.lost, "Kafka rejected spans"
    took_s = (times[-1] - times[0]) / NS
    sessions = PLAN.before + PLAN.spike + PLAN.after
    return BotReport(frozenset(breaks), (times[1], times[2]), sessions, receipts.sent, took_s)


def _breaks(chats: Sequence[DeskConversation], prefix: str) -> set[Breach]:
    """Return the rules that were broken in these conversations."""
    return {
        (*cast("tuple[str, str]", kind.value), named(chat, prefix).session_id)
        for chat in chats
        for kind in chat.breaks
    }
