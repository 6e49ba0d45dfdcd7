"""The rival of `rival.py` in Faust: a message for each span, regrouped by session, with a table write each.

It reads the same messages as the pipeline does, with advantages: the spans of a trace come in one
message, so it need not wait for a root; all messages of a session come in order in one partition, which
no collector sees to (with messages partitioned by trace its verdicts are wrong); it does not wait
for late spans, and it writes no witnesses, sessions or statuses. `pipeline.py` runs it; it ends once
it has judged the given number of spans.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.stream.kafka.librdkafka.admin import NewTopicLayout
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings

from benchmarks.kafka.floor import count_of
from benchmarks.kafka.rival import Rival, new_state, spans_of
from tests.support.brokers.sending import sending

PARTITIONS = 4
WARM = 300
"""The number of spans before the measurement starts."""
TIMEOUT_S = 300

Violation = tuple[str, str, str, int]
"""Pack, rule, session and the event's place in it."""


@dataclass
class Spent:
    """The cost of spans, those without content among them: seconds by the clock, of processor, of judging.

    The first `WARM` that have content are not counted.
    """

    spans: float = 0.0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    judging_s: float = 0.0


class Meter:
    """A meter of the spans that a program judges, which ends it after the last one."""

    def __init__(self, expected: int) -> None:
        """Expect that many spans with content."""
        self._expected = expected
        self._spans = 0
        self._began = self._cpu_began = 0.0
        self.judging_s = 0.0
        self.violations: list[Violation] = []

    def begin(self) -> None:
        """Start the clock when enough spans are judged."""
        if self._spans == WARM:
            self._began, self._cpu_began, self.judging_s = time.monotonic(), _cpu_s(), 0.0

    def count(self) -> None:
        """Count a span; after the last one print the cost and the violations, and exit."""
        self._spans += 1
        if self._spans == self._expected:
            spent = Spent(
                self._spans - WARM,
                time.monotonic() - self._began,
                _cpu_s() - self._cpu_began,
                self.judging_s,
            )
            print(json.dumps({"spent": asdict(spent), "violations": self.violations}), flush=True)
            os._exit(0)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def work(bootstrap: str, name: str, expected: int, *, tuned: bool) -> None:
    """Run the Faust program; `tuned` gives its producer and streams larger buffers and fewer logs."""
    import faust
    from faust.transport.producer import ProducerBuffer

    options: dict[str, Any] = {}
    if tuned:
        ProducerBuffer.max_messages = 10_000
        options = {
            "producer_linger": 0.005,
            "producer_max_batch_size": 1 << 20,
            "stream_buffer_maxsize": 4096,
            "broker_commit_interval": 5.0,
        }
        for logger in ("aiokafka", "faust", "mode"):
            logging.getLogger(logger).setLevel(logging.WARNING)
    app: Any = faust.App(
        name,
        broker=f"kafka://{bootstrap}",
        topic_partitions=PARTITIONS,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        **options,
    )
    states = app.Table("state", key_type=str, partitions=PARTITIONS)
    messages = app.topic(f"{name}-in", partitions=PARTITIONS, value_type=bytes, value_serializer="raw")
    by_session = app.topic(f"{name}-by-session", partitions=PARTITIONS, key_type=str)
    verdicts = app.topic(f"{name}-verdicts")
    rival, meter = Rival(load_packs(shipped_packs())), Meter(expected)

    async def regroup(stream: Any) -> None:
        async for message in stream:
            for session, span in spans_of(message):
                await by_session.send(key=session, value=span)

    async def judge(stream: Any) -> None:
        async for session, span in stream.items():
            meter.begin()
            state = states.get(session) or new_state()
            before = time.thread_time()
            found = rival.judge(state, span)
            meter.judging_s += time.thread_time() - before
            for violation in found:
                meter.violations.append((violation["pack"], violation["rule"], session, violation["seq"]))
                await verdicts.send(key=session, value=violation)
            states[session] = state
            meter.count()

    app.agent(messages)(regroup)
    app.agent(by_session)(judge)
    app.finalize()
    asyncio.run(_forever(app))


async def _forever(app: Any) -> None:
    await app.start()
    await asyncio.Event().wait()


def measure(
    bootstrap: str, name: str, messages: Sequence[bytes], *, tuned: bool
) -> tuple[Spent, Counter[Violation]]:
    """Send messages in order and let the program judge them; return its cost and the violations."""
    topics = (f"{name}-in", f"{name}-by-session", f"{name}-verdicts")
    kafka = KafkaSettings((bootstrap,))
    with administering(kafka, "benchmark") as admin:
        assert not admin.create({topic: NewTopicLayout(PARTITIONS) for topic in topics})
    expected = every = 0
    with sending(kafka, **{"compression.type": "none"}) as producer:
        for message in messages:
            sessions = [session for session, _ in spans_of(message)]
            expected += len(sessions)
            every += count_of(message)
            for session in sessions[:1]:
                producer.produce(f"{name}-in", message, partition=crc32(session.encode()) % PARTITIONS)
    call = f"work({bootstrap!r}, {name!r}, {expected}, tuned={tuned})"
    done = subprocess.run(
        [sys.executable, "-c", f"from benchmarks.kafka.rival_faust import work; {call}"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    printed = json.loads(done.stdout.splitlines()[-1])
    spent = Spent(**printed["spent"])
    spent.spans *= every / expected
    return spent, Counter(map(tuple, printed["violations"]))
