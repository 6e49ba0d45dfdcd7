"""The whole pipeline, killed and disturbed: its output, archives and audits show what was done."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from enum import StrEnum
from pathlib import Path

import pytest
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.process.faultpoints import ArchiveFault, MonitorFault, RekeyFault

from ..support.brokers.reading import is_read
from ..support.chains.conversation_chain import conversation_chain
from ..support.processes.rekeying import make_topics, until, until_carried
from ..support.processes.stage import Stage
from ..support.truth.conversations import write_pack
from ..support.truth.judging import Listener
from .proving import (
    SESSIONS,
    WAIT_S,
    Pipeline,
    Proof,
    Sender,
    assert_whole,
    proof,
    repeated,
    stop,
)

pytestmark = pytest.mark.slow

SIGKILLED = -signal.SIGKILL
PORTION = 12
"""Records that are sent at a time while processes die."""
LEFT = 100
"""Records that are left for those who live; they show, too, that the time has passed everything."""
Start = Callable[..., AbstractContextManager[Stage]]
FAULTS: Mapping[type[StrEnum], Mapping[StrEnum, int]] = {
    RekeyFault: dict.fromkeys(RekeyFault, 2),
    MonitorFault: {
        MonitorFault.RECEIVED: 3,
        MonitorFault.STEPPED: 4,
        MonitorFault.PRODUCED: 4,
        MonitorFault.WRITTEN: 3,
        MonitorFault.ACKNOWLEDGED: 4,
        MonitorFault.COMMITTED: 1,
    },
    ArchiveFault: dict.fromkeys(ArchiveFault, 2),
}
"""The fault points at which rekeyer, monitor and archiver die in turn, each with the pass of its death."""
KILLED_AT = tuple(fault for faults in FAULTS.values() for fault in faults)
DISK_FAULTS = {MonitorFault.WRITTEN: 2, MonitorFault.ACKNOWLEDGED: 2, MonitorFault.COMMITTED: 1}
"""The fault points at which the monitor dies with its state on disk: Kafka and its disk may differ there."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    """Conversations, their records, and what must come of them."""
    return proof(write_pack(tmp_path_factory.mktemp("pack")))


@pytest.fixture(scope="module")
def chain(made: Proof) -> Path:
    """A chain of the pack."""
    return conversation_chain(made.pack.parent, made.pack)


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of sessions that every process has, and the audit."""
    for name, value in SESSIONS.items():
        monkeypatch.setenv(name, value)


def test_killed_at_every_place_it_finds_what_was_done(
    kafka: KafkaSettings, made: Proof, chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rekey, monitor and archiver die at each place in turn, all at a time, while spans come and poison.

    The monitors follow a chain: its crossings are those of an audit of the archive.
    """
    make_topics(kafka)
    pipeline = Pipeline(kafka, made.pack, tmp_path, chain)
    deaths: list[StrEnum] = []
    with (
        closing(Sender(kafka, made)) as sender,
        closing(Listener(kafka)) as listener,
        ExitStack() as stack,
        ThreadPoolExecutor() as pool,
    ):

        def die(*lives: tuple[Start, Mapping[StrEnum, int]]) -> Stage:
            for start, faults in lives:
                for fault, times in faults.items():
                    with start("one", f"{fault}:{times}") as stage:
                        # It may wait for the others' deaths before it has anything to do.
                        assert stage.process.wait(WAIT_S) == SIGKILLED, stage.log.read_text()
                    deaths.append(fault)
            return stack.enter_context(start("one"))

        dying = [
            pool.submit(die, (pipeline.rekey, FAULTS[RekeyFault])),
            pool.submit(die, (pipeline.monitor, FAULTS[MonitorFault]), (pipeline.disk_monitor, DISK_FAULTS)),
            pool.submit(die, (pipeline.archiver, FAULTS[ArchiveFault])),
        ]
        feed(sender, kafka, deaths, lambda: all(death.done() for death in dying))
        sender.send()
        listener.until(sender.is_complete, within_s=WAIT_S)
        until_carried(kafka)
        stop(*(death.result() for death in dying))
        found = listener.until(lambda _: False, alive=lambda: False)
        assert_whole(pipeline, sender, found)
        assert deaths.count(MonitorFault.WRITTEN) == 2
        assert set(deaths) == set(KILLED_AT)
        assert repeated(found), "no message was ever sent twice"
    with capsys.disabled():
        print(f"\nkilled at {', '.join(deaths)}; {repeated(found)} messages sent twice")
        print(f"{len(made.ids)} verdicts, {len(sender.planted)} dead letters")


def feed(sender: Sender, kafka: KafkaSettings, deaths: list[StrEnum], is_over: Callable[[], bool]) -> None:
    """Send a portion whenever all is read and judged, and whenever a process has died, until all have."""
    seen = -1
    with administering(kafka, "test") as admin:

        def is_time() -> bool:
            if is_over() or len(deaths) > seen:
                return True
            # The monitor judges together what has come: its fault points need many portions.
            return sender.left > LEFT and all(is_read(admin, kafka, name) for name in ("rekey", "monitor"))

        while not is_over():
            seen = len(deaths)
            if sender.left > LEFT:
                sender.send(PORTION)
            until("a process dies, or all is read", is_time, within_s=WAIT_S)
