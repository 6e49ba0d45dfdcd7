"""The size of open sessions in the monitor's state, and the duration of a restart with them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from tracline.examples.local_kafka import Broker
from tracline.rules.packs.load import shipped_packs
from tracline.schemas.time import NS
from tracline.stream.messages.codec import Tick, encode, partition_of
from tracline.stream.messages.monitor_state import decode_head, decode_session, encode_session
from tracline.stream.messages.topics import Topic

from benchmarks.kafka.processes import PARTITIONS, Reader, Running, Setup, judged_until
from tests.support.brokers.sending import sending

SESSIONS = 100_000
TEMPLATES = 500
DAY_NS = 86_400 * NS


@dataclass(frozen=True)
class Open:
    """The records of open sessions, and their sizes in bytes."""

    records: Sequence[bytes]
    count: int
    mean: float
    p99: int
    largest: int


@dataclass(frozen=True)
class Recovery:
    """The duration of a start in seconds, and its use of processor and memory."""

    store: str
    sessions: int
    ready_s: float
    judged_s: float
    cpu_s: float
    memory_mb: float


def changelog(setup: Setup) -> str:
    """Return the topic of the monitor's state."""
    return f"{setup.kafka.group('monitor')}-state-changelog"


def state_sizes(setup: Setup) -> Open:
    """Return the open sessions of the changelog; those with pages are too long to be closed soon."""
    reader = Reader(setup, changelog(setup))
    table = {record.key: record.value for record in reader.all() if record.key.startswith(b"s/")}
    reader.close()
    written = [record for record in table.values() if record is not None]
    records = [
        record
        for record in written
        if decode_head(record).pages or decode_session(record).session.open is not None
    ]
    sizes = sorted(map(len, records))
    return Open(records, len(sizes), fmean(sizes), sizes[len(sizes) * 99 // 100], sizes[-1])


def recoveries(broker: Broker, records: Sequence[bytes]) -> Iterator[Recovery]:
    """Yield the starts with many open sessions: in memory, on an empty disk, and on its old disk."""
    folder = broker.folder / "stores"
    for name, arguments in (("memory", ("memory",)), ("rocksdict", ("rocksdict", "--data", str(folder)))):
        setup = Setup(broker, f"recovery-{name}", {"idle_s": 86_400, "lateness_s": 1})
        command = ("monitor", "--rules", *shipped_packs(), "--store", *arguments)
        setup.make_topics()
        begun = time.time_ns()
        with setup.running("monitor", "--rules", *shipped_packs()) as first:
            # The monitor writes the rules and each partition's record.
            _tick(setup, begun)
            judged_until(setup, begun, first)
            _end(first)
        _fill(setup, records, begun)
        yield _start(setup, command, begun + 1_000 * NS, name)
        if name == "rocksdict":
            yield _start(setup, command, begun + 2_000 * NS, "rocksdict, again")


def _start(setup: Setup, command: Sequence[str], at: int, store: str) -> Recovery:
    """Start a monitor whose next message is a tick of that time."""
    _tick(setup, at)
    began = time.time()
    with setup.running(*command) as monitor:
        monitor.wait_for_log("assigned partitions")
        ready_s = time.time() - began
        judged_s = judged_until(setup, at, monitor) - began
        recovery = Recovery(store, SESSIONS, ready_s, judged_s, monitor.cpu, monitor.memory_mb)
        _end(monitor)
    return recovery


def _end(monitor: Running) -> None:
    """Terminate it and wait: the group would hold a killed process's partitions until the time-out."""
    monitor.process.terminate()
    monitor.process.wait()


def _tick(setup: Setup, at: int) -> None:
    """Send a tick of that time to every partition of events."""
    tick = encode(Tick(PARTITIONS, dict.fromkeys(range(PARTITIONS), at)))
    _produce(setup, setup.kafka.topic(Topic.EVENTS), [(number, None, tick) for number in range(PARTITIONS)])


def _fill(setup: Setup, records: Sequence[bytes], now: int) -> None:
    """Write copies of the judged sessions to the changelog, open, under other names, due tomorrow."""
    whole = [record for record in records if not decode_head(record).pages]
    states = [decode_session(record) for record in whole[:TEMPLATES]]
    bytes_max = setup.kafka.message_bytes_max

    def rows() -> Iterator[tuple[int, bytes, bytes]]:
        for number in range(SESSIONS):
            state, name = states[number % len(states)], f"recovered-{number}"
            session = replace(state.session, session_id=name)
            record = encode_session(replace(state, session=session), 0, now + DAY_NS, bytes_max).record
            yield partition_of(name, PARTITIONS), f"s/{name}".encode(), record

    _produce(setup, changelog(setup), rows())


def _produce(setup: Setup, topic: str, rows: Any) -> None:
    """Send values to their partitions."""
    with sending(setup.kafka) as producer:
        for partition, key, value in rows:
            producer.produce(topic, value, key, partition)
