"""Two processes of each kind, killed at random by seed: `make kills KILLS=80 SEED=1`.

Conversations come all the while. Nothing but a kill may end a process: each exit with a code is counted.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from random import Random

import pytest
from tracline.predict.detector import DetectorSettings
from tracline.stream.alerts.alert import decode
from tracline.stream.alerts.rates import default_rates, tolerance
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.process.faultpoints import AlertFault, ArchiveFault, MonitorFault, RekeyFault

from ..support.alerting import Alerting
from ..support.brokers.reading import is_read, read
from ..support.chains.conversation_chain import conversation_chain
from ..support.conversations.days import day
from ..support.conversations.keyed import PARTITIONS
from ..support.processes.rekeying import make_topics, until, until_carried
from ..support.processes.stage import Stage, running
from ..support.truth.conversations import PlayedSession, write_pack
from ..support.truth.judging import Listener
from .proving import IDLE_S, SESSIONS, Pipeline, Proof, Sender, assert_whole, conversations, proof

pytestmark = pytest.mark.exhaustive

KILLS = int(os.environ.get("KILLS", "80"))
SEED = int(os.environ.get("SEED", "1"))
SILENT_S = "8"
"""The time that a process may be silent: a busy machine must not part it from its partitions."""
APART_S = 4.0
"""The longest time between two kills; the shortest is none, so that several processes are away at a time."""
AT_A_PLACE = 0.6
"""The share of starts at which a process is to die at one of its fault points, not at any time."""
SPARED_S = 20.0
"""The time that such a process has, once it has begun, to come to the fault point before any other kill.

It is not counted from the start, which takes longer on a busy machine.
"""
BEGUN = "metrics and health"
"""The words that a process logs when it has begun."""
LEAST_AT_A_PLACE = 0.1
"""The share of kills that must come at a fault point: otherwise processes hardly ever died at work."""
WAIT_S = 300.0
POLL_S = 0.05
TICK_S = 60
ARL_TICKS = 100
FAULTS: dict[str, type[StrEnum]] = {
    "rekey": RekeyFault,
    "monitor": MonitorFault,
    "archive": ArchiveFault,
    "alerts": AlertFault,
}


@dataclass
class Slot:
    """One of the two processes of a kind, in the life that it has now."""

    kind: str
    number: int
    lives: int = 0
    stack: ExitStack = field(default_factory=ExitStack)
    running: Stage | None = None
    is_shot: bool = False
    is_to_die: bool = False
    """It is to die at a fault point."""
    begun_at: float | None = None

    @property
    def stage(self) -> Stage:
        """The process."""
        assert self.running is not None, "it was started"
        return self.running

    @property
    def has_begun(self) -> bool:
        """It knows signals, and is about to join."""
        return BEGUN in self.stage.log.read_text()

    def is_spared(self, now: float) -> bool:
        """Return whether it is on its way to a fault point."""
        if self.is_to_die and self.begun_at is None and self.has_begun:
            self.begun_at = now
        return self.is_to_die and (self.begun_at is None or now < self.begun_at + SPARED_S)

    def live(self, process: AbstractContextManager[Stage], *, is_to_die: bool) -> None:
        """Live on in another process."""
        self.stack.close()
        self.is_shot, self.is_to_die, self.begun_at = False, is_to_die, None
        self.running = self.stack.enter_context(process)


@dataclass
class Toll:
    """The ends of processes: kills by kind, and exits that no kill explains, each with its last lines.

    `at_a_place` are those of the kills that came at a fault point.
    """

    kills: Counter[str] = field(default_factory=Counter)
    at_a_place: Counter[str] = field(default_factory=Counter)
    exits: list[str] = field(default_factory=list)


@dataclass
class Killing:
    """The processes, which are killed and started again as the seed has it."""

    pipeline: Pipeline
    random: Random
    toll: Toll = field(default_factory=Toll)
    slots: list[Slot] = field(default_factory=list)

    def start_all(self) -> None:
        """Start two processes of each kind."""
        for kind in FAULTS:
            for number in (1, 2):
                self.slots.append(Slot(kind, number))
                self._start(self.slots[-1], None)

    def raise_the_dead(self, *, may_die: bool) -> None:
        """Count the processes that have ended, and start each again."""
        for slot in self.slots:
            if (code := slot.stage.process.poll()) is None:
                continue
            if code == -signal.SIGKILL:
                self.toll.kills[slot.kind] += 1
                self.toll.at_a_place[slot.kind] += not slot.is_shot
            else:
                self.toll.exits.append(f"{slot.stage.log.name}: {code}: {slot.stage.log.read_text()[-1500:]}")
            self._start(slot, self._fault(slot) if may_die else None)

    def kill_one(self) -> None:
        """Kill any process at once that is not on its way to a fault point."""
        now = time.monotonic()
        if not (open_to_kills := [slot for slot in self.slots if not slot.is_spared(now)]):
            return
        slot = self.random.choice(open_to_kills)
        slot.is_shot = True
        slot.stage.process.kill()

    def disarm(self) -> None:
        """Kill those that are to die at a place, which may never come; the next ones are not to die."""
        for slot in self.slots:
            slot.is_shot = True
            slot.stage.process.kill()
            slot.stage.ended()
        self.raise_the_dead(may_die=False)

    def stop(self) -> None:
        """Ask all to end; each exits 0."""
        for slot in self.slots:
            # One that has only just begun knows no signals yet.
            until("it has begun", lambda slot=slot: slot.has_begun)
            assert slot.stage.stop() == 0, slot.stage.log.read_text()

    def close(self) -> None:
        """End all that are left."""
        for slot in self.slots:
            slot.stack.close()

    def _fault(self, slot: Slot) -> str | None:
        if self.random.random() > AT_A_PLACE:
            return None
        return f"{self.random.choice(list(FAULTS[slot.kind]))}:{self.random.randint(1, 6)}"

    def _start(self, slot: Slot, fault: str | None) -> None:
        slot.lives += 1
        log = self.pipeline.folder / f"{slot.kind}-{slot.number}-{slot.lives:03}.log"
        flags = ("--timeout-s", SILENT_S, *self._flags(slot))
        process = running(self.pipeline.kafka, log, slot.kind, *flags, fault=fault)
        slot.live(process, is_to_die=fault is not None)

    def _flags(self, slot: Slot) -> Sequence[str]:
        folder = self.pipeline.folder
        match slot.kind:
            case "rekey":
                # One keeps its name, the other has a new one each time.
                return ("--instance", "kept") if slot.number == 1 else ()
            case "monitor":
                store = ("--store", "rocksdict", "--data", str(folder / "state")) if slot.number == 1 else ()
                return ("--rules", str(self.pipeline.pack), *self.pipeline.predicting, *store)
            case "archive":
                return ("--archive", str(self.pipeline.archive), "--rows", "20", "--every-s", "2")
            case _:
                return ("--tick-s", str(TICK_S), "--arl", str(ARL_TICKS))


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of sessions that every process has, and the audit."""
    for name, value in SESSIONS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def made(tmp_path: Path) -> Proof:
    """Conversations, the more the more often is killed, their records, and what must come of them."""
    seeds = range(SEED, SEED + max(1, KILLS // 4))
    return proof(
        write_pack(tmp_path),
        [renamed(session_played, seed) for seed in seeds for session_played in day(seed, 15)],
    )


def renamed(played: PlayedSession, seed: int) -> PlayedSession:
    """The conversation under a name that no other day has."""
    return replace(
        played, session=replace(played.session, session_id=f"{played.session.session_id}-day-{seed}")
    )


def test_killed_at_any_time_nothing_is_lost_and_nobody_gives_up(
    kafka: KafkaSettings, made: Proof, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Live, archive and audit find what the conversations were; no process ended but by a kill."""
    make_topics(kafka)
    random, began = Random(f"kills {SEED}"), time.monotonic()
    chain = conversation_chain(tmp_path, made.pack)
    killing = Killing(Pipeline(kafka, made.pack, tmp_path, chain), random)
    with closing(Sender(kafka, made)) as sender, closing(Listener(kafka)) as listener, closing(killing):
        killing.start_all()
        feed_and_kill(killing, sender)
        killing.disarm()
        sender.send()
        until_complete(killing, listener, sender)
        until_carried(kafka)
        with administering(kafka, "test") as admin:
            for kind in ("monitor", "alerts"):
                read_to_end = lambda kind=kind: tended(killing) and is_read(admin, kafka, kind)  # noqa: E731
                until(f"{kind} has read all", read_to_end, within_s=WAIT_S)
        until("archived", lambda: tended(killing) and is_archived(killing), within_s=WAIT_S)
        killing.stop()
        found = listener.until(lambda _: False, alive=lambda: False)
    toll, notes = killing.toll, times_logged(tmp_path, "go on under the rules in force there")
    with capsys.disabled():
        print(f"\n{sum(toll.kills.values())} kills in {time.monotonic() - began:.0f} s: {dict(toll.kills)}")
        print(f"of these at fault points: {dict(toll.at_a_place)}")
        print(f"{len(made.records)} records, {len(made.ids)} verdicts, {found.again} messages sent twice")
        codes = Counter(code for text in toll.exits for code in re.findall(r"TRL\d+", text))
        print(f"exits without a kill: {len(toll.exits)} {dict(codes)}; TRL744: {codes['TRL744']}")
        print(f"notes that other rules are in force: {notes}")
        print("\n".join(toll.exits))
    assert_whole(killing.pipeline, sender, found)
    assert alerts(kafka) == expected_alerts(kafka)
    assert sum(toll.kills.values()) >= KILLS
    assert sum(toll.at_a_place.values()) >= LEAST_AT_A_PLACE * KILLS, "few died at work"
    assert not toll.exits
    assert not notes, "the rules were the same everywhere"


def feed_and_kill(killing: Killing, sender: Sender) -> None:
    """Send records while processes die, so many for each kill."""
    portion, due, sent_at = max(1, sender.left // (KILLS + 1)), 0.0, 0
    while (count := sum(killing.toll.kills.values())) < KILLS:
        if count >= sent_at and sender.left > 2 * portion:
            sender.send(portion)
            sent_at = count + 1
        if time.monotonic() >= due:
            killing.kill_one()
            due = time.monotonic() + killing.random.uniform(0, APART_S)
        killing.raise_the_dead(may_die=True)
        threading.Event().wait(POLL_S)


def tended(killing: Killing) -> bool:
    """Start again who has ended; always true."""
    killing.raise_the_dead(may_die=False)
    return True


def until_complete(killing: Killing, listener: Listener, sender: Sender) -> None:
    """Wait until all that must come has come; otherwise report what is missing, and what came instead."""
    found = listener.found

    def is_complete() -> bool:
        listener.until(lambda _: False, alive=lambda: False)
        return tended(killing) and sender.is_complete(found)

    try:
        until("all is read", is_complete, within_s=WAIT_S)
    except AssertionError as late:
        missing = {what: (len(those), those[:20]) for what, those in sender.missing(found).items()}
        others = sorted((conversations(found.places) - sender.proof.places).elements())[:20]
        raise AssertionError(f"{late}; missing: {missing}; others: {others}; {found.watermarks}") from late


def is_archived(killing: Killing) -> bool:
    """Return whether the archivers have read to the end."""
    lags = [
        lag
        for slot in killing.slots
        if slot.kind == "archive"
        for lag in slot.stage.metric("tracline_kafka_lag")
    ]
    return len(lags) == PARTITIONS and max(lags) <= 1


def times_logged(folder: Path, text: str) -> int:
    """Return how often any process has printed that."""
    return sum(log.read_text().count(text) for log in folder.glob("*.log"))


def alerts(kafka: KafkaSettings) -> Counter[tuple[str, str]]:
    """The id and status of each alert that was written."""
    alerts_read = [decode(record.value) for record in read(kafka, kafka.topic(Topic.ALERTS))]
    return Counter((alert.id, alert.status) for alert in alerts_read)


def expected_alerts(kafka: KafkaSettings) -> Counter[tuple[str, str]]:
    """The alerts that one process raises which reads all verdicts at once and was never killed."""
    name = kafka.topic(Topic.VERDICTS)
    alerting = Alerting(
        tolerance(default_rates(TICK_S, IDLE_S)), DetectorSettings(arl_ticks=ARL_TICKS), PARTITIONS, name
    )
    records = [
        Record(record.partition, record.offset, record.timestamp * 1_000_000, record.value)
        for record in read(kafka, name)
    ]
    raised = Counter((alert.id, alert.status) for alert in alerting.step(records).alerts)
    assert raised, "no alert would be shown"
    return raised
