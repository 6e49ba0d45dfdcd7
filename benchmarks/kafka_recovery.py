"""How large open sessions are in the monitor's state, and how long it takes to go on with them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from kafka import KafkaProducer
from kafka_run import PARTITIONS, Ground, Reader, Running, judged_until
from tracline.examples.local_kafka import Broker
from tracline.rules.packs.load import shipped_packs
from tracline.schemas.time import NS, rfc3339
from tracline.stream.messages.codec import Tick, encode, partition_of
from tracline.stream.messages.monitor_state import decode_session, encode_session
from tracline.stream.messages.topics import Topic

SESSIONS = 100_000
TEMPLATES = 500
DAY_NS = 86_400 * NS


@dataclass(frozen=True)
class Open:
    """The records of open sessions, and how large they are in bytes."""

    records: Sequence[bytes]
    count: int
    mean: float
    p99: int
    largest: int


@dataclass(frozen=True)
class Recovery:
    """How long a start took, in seconds, and what it used."""

    store: str
    sessions: int
    ready_s: float
    judged_s: float
    cpu_s: float
    memory_mb: float


def changelog(ground: Ground) -> str:
    """The topic of the monitor's state."""
    return f"{ground.kafka.group('monitor')}-state-changelog"


def state_sizes(ground: Ground) -> Open:
    """Return what the changelog holds of open sessions."""
    reader = Reader(ground, changelog(ground))
    table = {record.key: record.value for record in reader.all() if record.key.startswith(b"s/")}
    reader.close()
    records = [
        one for one in table.values() if one is not None and decode_session(one).session.open is not None
    ]
    sizes = sorted(map(len, records))
    return Open(records, len(sizes), fmean(sizes), sizes[len(sizes) * 99 // 100], sizes[-1])


def recoveries(broker: Broker, records: Sequence[bytes]) -> Iterator[Recovery]:
    """Starts of a monitor over many open sessions: in memory, on an empty disk, and on the disk it left."""
    folder = broker.folder / "shelves"
    for name, arguments in (("memory", ("memory",)), ("rocksdict", ("rocksdict", "--data", str(folder)))):
        ground = Ground(broker, f"recovery-{name}", {"idle_s": 86_400, "lateness_s": 1})
        command = ("monitor", "--rules", *shipped_packs(), "--store", *arguments)
        ground.make_topics()
        begun = time.time_ns()
        with ground.running("monitor", "--rules", *shipped_packs()) as first:
            # It writes the rules and each partition's facts.
            _tick(ground, begun)
            judged_until(ground, rfc3339(begun), first)
            _end(first)
        _fill(ground, records, begun)
        yield _start(ground, command, begun + 1_000 * NS, name)
        if name == "rocksdict":
            yield _start(ground, command, begun + 2_000 * NS, "rocksdict, again")


def _start(ground: Ground, command: Sequence[str], at: int, store: str) -> Recovery:
    """Start a monitor whose next message tells that time."""
    _tick(ground, at)
    began = time.time()
    with ground.running(*command) as monitor:
        monitor.said("goes on with")
        ready_s = time.time() - began
        judged_s = judged_until(ground, rfc3339(at), monitor) - began
        told = Recovery(store, SESSIONS, ready_s, judged_s, monitor.cpu, monitor.memory_mb)
        _end(monitor)
    return told


def _end(monitor: Running) -> None:
    """Ask it to end, and wait: one that is killed has its partitions for as long as it may be silent."""
    monitor.process.terminate()
    monitor.process.wait()


def _tick(ground: Ground, at: int) -> None:
    """Tell every partition of events the time."""
    told = encode(Tick(PARTITIONS, dict.fromkeys(range(PARTITIONS), at)))
    _produce(ground, ground.kafka.topic(Topic.EVENTS), [(number, None, told) for number in range(PARTITIONS)])


def _fill(ground: Ground, records: Sequence[bytes], now: int) -> None:
    """Write open sessions to the changelog: such as were judged before, under other names, due tomorrow."""
    states = [decode_session(record) for record in records[:TEMPLATES]]
    bytes_max = ground.kafka.message_bytes_max

    def rows() -> Iterator[tuple[int, bytes, bytes]]:
        for number in range(SESSIONS):
            state, name = states[number % len(states)], f"recovered-{number}"
            session = replace(state.session, session_id=name)
            record, _ = encode_session(replace(state, session=session), 0, now + DAY_NS, bytes_max)
            yield partition_of(name, PARTITIONS), f"s/{name}".encode(), record

    _produce(ground, changelog(ground), rows())


def _produce(ground: Ground, topic: str, rows: Any) -> None:
    """Send values to their partitions."""
    producer: Any = KafkaProducer(bootstrap_servers=[ground.broker.bootstrap], linger_ms=20)
    for partition, key, value in rows:
        producer.send(topic, value, key, partition=partition)
    producer.flush()
    producer.close()
