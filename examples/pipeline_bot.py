"""The simulated bot of `pipeline.py`: past conversations, and live ones of a few seconds with a spike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from ..schemas.time import NS
from .desk.bot import Desk, DeskConversation, conversations
from .desk.scene import Break
from .instrumented_bot import converse, named, sending

Breach = tuple[str, str, str]
"""Pack, rule and session id."""


PAST, BEFORE, SPIKE, AFTER = 1_000, 80, 60, 40
"""The numbers of conversations: in the past, and before, during and after the spike."""
SPIKE_BREAK = Break.CONFIRM_REFUND
"""The rule that the agent breaks far more often during the spike."""
SPIKE_RATE = 0.6
"""The share of conversations in which the agent tries to break it during the spike."""
RATES = dict.fromkeys(Break, 0.1 / len(Break))
"""The share of conversations in which the agent tries to break each rule outside the spike."""
PACE_S = 0.005
"""The duration of a second of a conversation."""
AT_ONCE = 12
"""Concurrent conversations."""


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
    desk = Desk(sessions=PAST, seed=1, rates=RATES, spike=None)
    chats = list(conversations(desk))
    durations = [(chat.steps[-1].time_ns - chat.start_ns) * PACE_S for chat in chats]
    interval = round(sum(durations) / len(chats) / AT_ONCE)
    first = time.time_ns() - 2 * interval * len(chats) - 600 * NS
    for number, chat in enumerate(chats):
        yield _at(chat, first + number * interval)


def _at(conversation: DeskConversation, start: int) -> DeskConversation:
    """Return the conversation at another time, at the pace of the plan."""

    def moved(at: int) -> int:
        return start + round((at - conversation.start_ns) * PACE_S)

    steps = tuple(replace(step, time_ns=moved(step.time_ns)) for step in conversation.steps)
    return replace(conversation, start_ns=start, steps=steps)


def talk(bootstrap: str) -> BotReport:
    """Play the conversations, and send their spans to Kafka; return when Kafka has acknowledged all."""
    from ..stream.kafka.care.exporter import KafkaSpanExporter
    from ..stream.kafka.settings import KafkaSettings

    phases = (
        ("before", Desk(sessions=BEFORE, seed=2, rates=RATES, spike=None)),
        ("spike", Desk(sessions=SPIKE, seed=3, rates={**RATES, SPIKE_BREAK: SPIKE_RATE}, spike=None)),
        ("after", Desk(sessions=AFTER, seed=4, rates=RATES, spike=None)),
    )
    breaks: set[Breach] = set()
    times = [time.time_ns()]
    with sending(KafkaSpanExporter(KafkaSettings((bootstrap,)))) as (provider, receipts):
        for prefix, desk in phases:
            chats = list(conversations(desk))
            asyncio.run(converse(chats, provider, PACE_S, AT_ONCE, prefix))
            times.append(time.time_ns())
            breaks |= _breaks(chats, prefix)
    assert not receipts.lost, "Kafka rejected spans"
    took_s = (times[-1] - times[0]) / NS
    return BotReport(frozenset(breaks), (times[1], times[2]), BEFORE + SPIKE + AFTER, receipts.sent, took_s)


def _breaks(chats: Sequence[DeskConversation], prefix: str) -> set[Breach]:
    """Return the rules that were broken in these conversations."""
    return {
        (*cast("tuple[str, str]", kind.value), named(chat, prefix).session_id)
        for chat in chats
        for kind in chat.breaks
    }
