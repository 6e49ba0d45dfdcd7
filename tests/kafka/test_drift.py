"""A monitor whose chain has drifted, killed at every fault point: the same detectors and crossings."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.predict.drift.detectors import Detectors
from tracline.predict.folder.load import load_chain
from tracline.predict.following.loaded_chains import LoadedChains
from tracline.rules.packs.load import load_packs
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.codec import encode, partition_of
from tracline.stream.messages.drift_state import DriftState, decode_drift
from tracline.stream.messages.monitor_state import drift_key
from tracline.stream.messages.record import Record
from tracline.stream.messages.risk_messages import decode_risk
from tracline.stream.messages.topics import Topic
from tracline.stream.process.faultpoints import MonitorFault

from ..support.brokers.reading import is_read, read
from ..support.brokers.sending import sending
from ..support.conversations.keyed import PARTITIONS
from ..support.event_rows import session, user, write
from ..support.processes.rekeying import make_topics, until
from ..support.processes.stage import DYING_S, TIMEOUT_S, Stage, running
from ..unit.stream.monitor_driver import OPTIONS, Monitor, batch, wrote

pytestmark = pytest.mark.slow

PACK = """
pack: desk
version: 1
propositions: {angry: text contains "!", unsure: text contains "?"}
predict: {propositions: [unsure]}
rules:
  - {id: calm, severity: high, formula: always not angry}
"""
ABOVE = "0.15"
TICK_S = 300
DYING_AT: Sequence[Mapping[MonitorFault, int]] = (
    dict.fromkeys(MonitorFault, 2) | {MonitorFault.COMMITTED: 1},
    {MonitorFault.WRITTEN: 1, MonitorFault.ACKNOWLEDGED: 2},
)
"""The fault points of a monitor with its state in memory, and on disk, with the pass of its death."""
WAIT_S = 120.0


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of sessions that every process has."""
    monkeypatch.setenv("TRACLINE_SESSIONS_IDLE_S", str(OPTIONS.sessions.idle_s))
    monkeypatch.setenv("TRACLINE_SESSIONS_LATENESS_S", str(OPTIONS.sessions.lateness_s))


def learned(folder: Path) -> tuple[Path, Path]:
    """Return the pack and its chain: one unsure user of five shouts, and no other user does."""
    pack, chain, draw = folder / "desk.yaml", folder / "desk.chain", Random(1)
    pack.write_text(PACK)
    texts = [
        ("hello", "well?", draw.choice(["now!", *("hm",) * 4])) if number % 4 == 0 else ("hello", "hm")
        for number in range(600)
    ]
    rows = [row for number, each in enumerate(texts) for row in session(f"s{number}", *map(user, each))]
    write(folder / "learned" / "0.parquet", rows)
    args = ["predict", "learn", folder / "learned", "--rules", pack, "--out", chain, "--hold-out", "0"]
    done = CliRunner().invoke(tracline, list(map(str, args)))
    assert done.exit_code == 0, done.output
    return pack, chain


def ticks() -> Iterator[list[tuple[int, bytes]]]:
    """Yield the messages of each tick: in every partition three users shout, and another is unsure."""
    names = [
        [f"{number}" for number in range(1_000) if partition_of(f"{number}", PARTITIONS) == partition][:4]
        for partition in range(PARTITIONS)
    ]
    for tick in count():
        at, sent = TICK_S * tick, list[tuple[int, bytes]]()
        for partition, (unsure, *shouting) in enumerate(names):
            first = [wrote(name, at + 1, "hello") for name in (unsure, *shouting)]
            then = [*(wrote(name, at + 3, "now!") for name in shouting), wrote(unsure, at + 4, "well?")]
            sent += [(partition, encode(batch(at + 9, *first))), (partition, encode(batch(at + 19, *then)))]
        yield sent


def test_killed_at_every_place_a_monitor_has_the_same_drift(kafka: KafkaSettings, tmp_path: Path) -> None:
    """Its reports and its table are those of a monitor that takes the messages one by one."""
    pack, chain = learned(tmp_path)
    make_topics(kafka)
    deaths: list[MonitorFault] = []

    def monitor(number: int, *more: str, fault: str | None = None):
        silent = DYING_S if fault else TIMEOUT_S
        flags = ("--rules", str(pack), "--predict", str(chain), "--above", ABOVE, "--timeout-s", silent)
        return running(kafka, tmp_path / f"monitor-{number}.log", "monitor", *flags, *more, fault=fault)

    def die() -> None:
        disk = ("--store", "rocksdict", "--data", str(tmp_path / "state"))
        for faults, more in zip(DYING_AT, ((), disk), strict=True):
            for fault, times in faults.items():
                with monitor(len(deaths), *more, fault=f"{fault}:{times}") as stage:
                    assert stage.process.wait(WAIT_S) == -signal.SIGKILL, stage.log.read_text()
                deaths.append(fault)

    with ThreadPoolExecutor() as pool, sending(kafka) as producer:
        dying = pool.submit(die)
        feed(kafka, producer, deaths, dying.done)
        dying.result()
        with monitor(len(deaths)) as stage:
            stopped(kafka, stage)
    assert set(deaths) == set(MonitorFault)
    risk, repeats = crossings(kafka)
    expected, detectors = by_message(kafka, pack, chain)
    assert risk == expected
    assert {True, False} == set(risk.values())
    assert repeats, "no crossing was ever sent twice"
    changed = {record.key.decode(): record.value for record in read(kafka, changelog(kafka))}
    for partition, (offset, state) in detectors.items():
        assert decode_drift(changed[drift_key(partition)]).at(offset) == state
        assert any(each.state.firing for each in state.values())


def changelog(kafka: KafkaSettings) -> str:
    """Return the topic of the monitor's table."""
    return f"{kafka.group('monitor')}-state-changelog"


def stopped(kafka: KafkaSettings, stage: Stage) -> None:
    """Stop a monitor once it has read everything."""
    with administering(kafka, "test") as admin:
        until("all is read", lambda: is_read(admin, kafka, "monitor"), within_s=WAIT_S)
    assert stage.stop() == 0, stage.log.read_text()


def feed(kafka: KafkaSettings, producer: Any, deaths: list[MonitorFault], is_over: Any) -> None:
    """Send a tick whenever all is read, and whenever a process has died, until all have, and twelve ticks."""
    topic = kafka.topic(Topic.EVENTS)
    with administering(kafka, "test") as admin:
        for number, tick in enumerate(ticks()):
            if is_over() and number >= 12:
                return
            for partition, value in tick:
                producer.produce(topic, value, partition=partition)
            producer.flush()
            seen = len(deaths)
            until(
                "a process dies, or all is read",
                lambda seen=seen: is_over() or len(deaths) > seen or is_read(admin, kafka, "monitor"),
                within_s=WAIT_S,
            )


def crossings(kafka: KafkaSettings) -> tuple[dict[str, bool], int]:
    """Return the drift of each crossing by id, which all repeats agree on, and the number of repeats."""
    found: dict[str, bool] = {}
    repeats = 0
    for record in read(kafka, kafka.topic(Topic.RISK)):
        for each in decode_risk(record.value).crossings:
            repeats += each.id in found
            assert found.setdefault(each.id, each.drift) == each.drift, "a repeat differs"
    return found, repeats


def by_message(
    kafka: KafkaSettings, pack: Path, chain: Path
) -> tuple[dict[str, bool], dict[int, tuple[int, Detectors]]]:
    """Return drift by crossing, and by partition the last offset with the detectors, in one process."""
    learned_chain, rules = load_chain(chain), dict(load_packs(pack).sources)
    chains = LoadedChains({learned_chain.digest: learned_chain}, float(ABOVE))
    options = replace(OPTIONS, partitions=PARTITIONS, rules=rules, chain=learned_chain.digest)
    sent = read(kafka, kafka.topic(Topic.EVENTS))
    risk: dict[str, bool] = {}
    detectors: dict[int, tuple[int, Detectors]] = {}
    for partition in range(PARTITIONS):
        monitor = Monitor(options, partitions=(partition,), chains=chains)
        records = [each for each in sent if each.partition == partition]
        for each in records:
            record = Record(partition, each.offset, each.timestamp * 1_000_000, each.value, Topic.EVENTS)
            for output in monitor.step([record]).outputs:
                if output.topic is Topic.RISK:
                    found = decode_risk(output.value or b"").crossings
                    risk |= {crossing.id: crossing.drift for crossing in found}
        state: DriftState = decode_drift(monitor.table[drift_key(partition)])
        detectors[partition] = records[-1].offset, state.at(records[-1].offset)
    return risk, detectors
