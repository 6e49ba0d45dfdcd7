"""The whole pipeline, killed and troubled: what it says, archives and an audit finds is what was done."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from enum import StrEnum
from pathlib import Path

import pytest
from tracline.examples.local_kafka import Broker
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.topics import administering
from tracline.stream.process.faultpoints import ArchiveFault, MonitorFault, RekeyFault

from ..serve.truth import write_pack
from .judging import Listener
from .keyed import SOURCES
from .proving import SESSIONS, WAIT_S, Pipeline, Proof, Sender, assert_whole, proof, stop
from .reading import is_read
from .rekeying import make_topics, until, until_carried
from .stage import Stage

pytestmark = pytest.mark.slow

SIGKILLED = -signal.SIGKILL
PORTION = 12
"""Records that are sent at a time while processes die."""
SHARED_S = 90.0
"""How long a group may take to divide its partitions: for `DELIVERY_MS` a producer may keep one of them."""
LEFT = 100
"""Records that are left for those who live; they tell, too, that the time has passed everything."""
Start = Callable[..., AbstractContextManager[Stage]]
FAULTS: Sequence[Mapping[StrEnum, int]] = (
    dict.fromkeys(RekeyFault, 2),
    {
        MonitorFault.RECEIVED: 3,
        MonitorFault.STEPPED: 4,
        MonitorFault.PRODUCED: 4,
        MonitorFault.WRITTEN: 3,
        MonitorFault.ACKNOWLEDGED: 4,
        MonitorFault.COMMITTED: 1,
    },
    dict.fromkeys(ArchiveFault, 2),
)
"""The places at which rekey, monitor and archiver die in turn, and the time at which it comes there."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    """Conversations, their records, and what must come of them."""
    return proof(write_pack(tmp_path_factory.mktemp("pack")))


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of sessions that every process has, and the audit."""
    for name, value in SESSIONS.items():
        monkeypatch.setenv(name, value)


def test_killed_at_every_place_it_finds_what_was_done(
    kafka: KafkaSettings, made: Proof, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rekey, monitor and archiver die at each place in turn, all at a time, while spans come and poison."""
    make_topics(kafka)
    pipeline = Pipeline(kafka, made.pack, tmp_path)
    deaths: list[StrEnum] = []
    with (
        closing(Sender(kafka, made)) as sender,
        closing(Listener(kafka)) as listener,
        ExitStack() as stack,
        ThreadPoolExecutor() as pool,
    ):

        def die(start: Start, faults: Mapping[StrEnum, int]) -> Stage:
            for fault, times in faults.items():
                with start("one", f"{fault}:{times}") as stage:
                    # It may wait for the others' deaths before it has anything to do.
                    assert stage.process.wait(WAIT_S) == SIGKILLED, stage.log.read_text()
                deaths.append(fault)
            return stack.enter_context(start("one"))

        starts = (pipeline.rekey, pipeline.monitor, pipeline.archiver)
        dying = [pool.submit(die, *one) for one in zip(starts, FAULTS, strict=True)]
        feed(sender, kafka, deaths, lambda: all(one.done() for one in dying))
        sender.send()
        listener.until(sender.is_heard, within_s=WAIT_S)
        until_carried(kafka)
        stop(*(one.result() for one in dying))
        heard = listener.until(lambda _: False, alive=lambda: False)
        assert_whole(pipeline, sender, heard)
        assert set(deaths) == {*RekeyFault, *MonitorFault, *ArchiveFault}
        assert heard.again, "what is told twice was never seen"
    with capsys.disabled():
        print(f"\nkilled at {', '.join(deaths)}; {heard.again} messages told twice")
        print(f"{len(made.ids)} verdicts, {len(sender.planted)} dead letters")


def feed(sender: Sender, kafka: KafkaSettings, deaths: list[StrEnum], is_over: Callable[[], bool]) -> None:
    """Send a portion whenever all is read, and whenever a process has died, until all have."""
    seen = -1
    with administering(kafka, "test") as admin:

        def is_time() -> bool:
            if is_over() or len(deaths) > seen:
                return True
            return sender.left > LEFT and is_read(admin, kafka, "rekey")

        while not is_over():
            seen = len(deaths)
            if sender.left > LEFT:
                sender.send(PORTION)
            until("a process dies, or all is read", is_time, within_s=WAIT_S)


@pytest.fixture
def own(own_kafka: KafkaSettings) -> KafkaSettings:
    """A broker that the test may kill, with topics."""
    make_topics(own_kafka)
    return own_kafka


def test_workers_come_and_go_and_so_does_the_broker(
    own_broker: Broker, own: KafkaSettings, made: Proof, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each process one works, then two, of which one is killed, then another two; spans come all the time.

    The broker is killed, and comes back. When it is gone for good a monitor that is to end does not wait.
    """
    pipeline = Pipeline(own, made.pack, tmp_path)
    starts = (pipeline.rekey, pipeline.monitor, pipeline.archiver)
    size = len(made.records) // 6
    with closing(Sender(own, made)) as sender, closing(Listener(own)) as listener, ExitStack() as stack:

        def started(name: str) -> list[Stage]:
            return [stack.enter_context(start(name)) for start in starts]

        first = started("first")
        sender.send(size)
        listener.until(lambda heard: bool(heard.places))
        sender.send(size)
        own_broker.restart()
        second = started("second")
        sender.send(size)
        for stage in (*first, *second):
            until_shared(stage)
        sender.send(size)
        for stage in first:
            stage.process.kill()
        third = started("third")
        sender.send(size)
        for stage in third:
            until_shared(stage)
        for stage in second:
            assert stage.stop() == 0, stage.log.read_text()
        sender.send()
        listener.until(sender.is_heard, within_s=WAIT_S)
        until_carried(own)
        rekey, monitor, archiver = third
        stop(rekey, archiver)
        heard = listener.until(lambda _: False, alive=lambda: False)
        own_broker.kill()
        monitor.process.terminate()
        # While it tries to finish, which takes its time.
        assert_whole(pipeline, sender, heard)
        assert monitor.ended() == 2
        said = monitor.log.read_text()
        assert "TRL745" in said
        assert "judged again at the next start" in said
    with capsys.disabled():
        print(f"\nnine processes; {heard.again} messages told twice, {len(made.ids)} verdicts")


def until_shared(stage: Stage) -> None:
    """Wait until the process has some of the partitions, and others the rest."""

    def is_shared() -> bool:
        said = re.findall(r"goes on with partitions (.*)", stage.log.read_text())
        return bool(said) and len(said[-1].split()) < SOURCES

    until(f"{stage.log.stem} has some partitions", is_shared, within_s=SHARED_S)
