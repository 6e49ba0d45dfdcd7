"""What one would write first with Faust: a message a span, `group_by` its session, a table write each.

The same rules, labels and states as the monitor's, through the same `Worker`, one span at a time. It has an
advantage: its messages are candidates, whose session somebody else has resolved, and it waits for nothing
that may come late. Run by `pipeline.py`; it ends once it has judged so many spans.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
from kafka import KafkaProducer
from tracline.rules.engine.judge import statute_of
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.candidate import Candidate
from tracline.schemas.sessions.assemble import Session
from tracline.schemas.time import NS
from tracline.stream.messages.session_state import SessionState
from tracline.stream.stages.judge import RuleSetJudge, Worker

IDLE_NS = 3600 * NS
WARM = 50
"""Spans that come before the clock is started."""
PARTITIONS = 4


@dataclass
class Spent:
    """What the spans behind the first `WARM` took: seconds on the clock, of processor, of that in judging."""

    spans: int = 0
    began: float = 0.0
    cpu_began: float = 0.0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    judging_s: float = 0.0
    verdicts: int = 0


@dataclass
class Judging:
    """The worker, one span at a time."""

    expected: int
    worker: Worker = field(
        default_factory=lambda: Worker(RuleSetJudge(statute_of(load_packs(shipped_packs()))))
    )
    spent: Spent = field(default_factory=Spent)

    def step(self, state: SessionState, candidate: Candidate) -> list[Any]:
        """Judge a span at once."""
        spent = self.spent
        if spent.spans == WARM:
            spent.began, spent.cpu_began, spent.judging_s = time.monotonic(), _cpu(), 0.0
        before = time.thread_time()
        done = self.worker.step({candidate.session_id: state}, [candidate], candidate.end)
        spent.judging_s += time.thread_time() - before
        spent.spans += 1
        spent.verdicts += len(done.records)
        return done.records

    def end(self) -> None:
        """Say what it took, and end, once all spans are judged."""
        spent = self.spent
        if spent.spans == self.expected:
            spent.spans -= WARM
            spent.wall_s, spent.cpu_s = time.monotonic() - spent.began, _cpu() - spent.cpu_began
            print(json.dumps(msgspec.to_builtins(spent)), flush=True)
            os._exit(0)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def work(bootstrap: str, name: str, expected: int, *, tuned: bool) -> None:
    """The Faust program."""
    import faust
    from faust.transport.producer import ProducerBuffer

    options: dict[str, Any] = {}
    if tuned:
        ProducerBuffer.max_messages = 10_000
        options = {"producer_linger": 0.005, "producer_max_batch_size": 1 << 20}
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
    spans, verdicts = app.topic(f"{name}-in", partitions=PARTITIONS), app.topic(f"{name}-verdicts")
    judging = Judging(expected)

    async def judge(stream: Any) -> None:
        async for told in stream.group_by(lambda told: told["session_id"], name="session"):
            candidate = msgspec.convert(told, Candidate)
            kept = states.get(candidate.session_id)
            empty = SessionState(Session(candidate.session_id, IDLE_NS))
            state = empty if kept is None else msgspec.convert(kept, SessionState)
            for verdict in judging.step(state, candidate):
                await verdicts.send(key=candidate.session_id, value=verdict)
            states[candidate.session_id] = msgspec.to_builtins(state)
            judging.end()

    app.agent(spans)(judge)
    app.finalize()
    asyncio.run(_forever(app))


async def _forever(app: Any) -> None:
    await app.start()
    await asyncio.Event().wait()


def measure(bootstrap: str, name: str, candidates: Sequence[Candidate], *, tuned: bool) -> Spent:
    """Send the candidates, a message each, and have the program judge them."""
    from kafka import KafkaAdminClient

    admin: Any = KafkaAdminClient(bootstrap_servers=[bootstrap])
    topics = (f"{name}-in", f"{name}-verdicts")
    admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1} for topic in topics})
    admin.close()
    producer: Any = KafkaProducer(bootstrap_servers=[bootstrap], linger_ms=20)
    for one in candidates:
        partition = crc32(one.trace_id.encode()) % PARTITIONS
        producer.send(f"{name}-in", msgspec.json.encode(one), partition=partition)
    producer.flush()
    producer.close()
    call = f"from obvious_faust import work; work({bootstrap!r}, {name!r}, {len(candidates)}, tuned={tuned})"
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return Spent(**json.loads(done.stdout))
