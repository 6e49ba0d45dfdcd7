"""The broker is killed under processes, or is away when they start, and comes back."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from tracline.examples.local_kafka import Broker, answers
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.care.exporter import KafkaSpanExporter
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings

from ..support.conversations.alert_messages import check_one_alert
from ..support.conversations.keyed import SOURCES
from ..support.http.hook import hook
from ..support.processes.rekeying import make_topics, until, until_carried
from ..support.processes.stage import TIMEOUT_S, Stage, running
from ..support.processes.stage import WAIT_S as STAGE_WAIT_S
from ..support.truth.conversations import write_pack
from ..support.truth.judging import Listener
from .alerting import alerts, halves, process, until_delivered, with_topics, write_rates
from .alerting import send as send_verdicts
from .proving import SESSIONS, WAIT_S, Pipeline, Proof, Sender, assert_whole, proof, stop
from .test_exporter import arrived, span

pytestmark = pytest.mark.slow

SHARED_S = 90.0
"""The time for a group to divide its partitions: for `DELIVERY_MS` a producer may keep one of them."""
PROCESSES = {
    "rekey": "assigned partitions",
    "monitor": "assigned partitions",
    "archive": "assigned partitions",
    "alerts": "alerts: active",
}
"""Each process, and its report once it works."""
WAITING = "waiting for the broker"


def start(stack: ExitStack, kafka: KafkaSettings, folder: Path, name: str, *flags: str) -> Stage:
    """Start a process of that name."""
    options = ("--archive", str(folder / "archive")) if name == "archive" else ()
    return stack.enter_context(
        running(kafka, folder / f"{name}.log", name, "--timeout-s", TIMEOUT_S, *options, *flags)
    )


def has_logged(stage: Stage, text: str) -> bool:
    """Return whether a process that has not ended has printed that."""
    assert stage.process.poll() is None, stage.log.read_text()
    return text in stage.log.read_text()


def test_processes_that_start_while_the_broker_is_away_wait_for_it(
    own_broker: Broker, own_kafka: KafkaSettings, tmp_path: Path
) -> None:
    """Each of the four reports once that it waits, works once the broker is there, and exits 0.

    With `--wait-s` a process ends after that time, at once with 0 (TRL723); a stopped one exits 0.
    """
    make_topics(own_kafka)
    own_broker.kill()
    with ExitStack() as stack:
        stages = {name: start(stack, own_kafka, tmp_path, name) for name in PROCESSES}
        stopped = start(stack, own_kafka, tmp_path / "stopped", "rekey")
        for wait_s, names in (("0", PROCESSES), ("1.5", ("monitor",))):
            folder = tmp_path / wait_s
            for ending in [start(stack, own_kafka, folder, name, "--wait-s", wait_s) for name in names]:
                assert ending.ended() == 2
                assert "TRL723 no broker listens" in ending.log.read_text()
                assert ending.log.read_text().count(WAITING) == (wait_s != "0")
        for stage in (*stages.values(), stopped):
            until("it waits", lambda stage=stage: has_logged(stage, WAITING), within_s=STAGE_WAIT_S)
        assert stopped.stop() == 0
        own_broker.start()
        for name, text in PROCESSES.items():
            works = lambda name=name, text=text: has_logged(stages[name], text)  # noqa: E731
            until(f"{name} works", works, within_s=STAGE_WAIT_S)
        for stage in stages.values():
            assert stage.stop() == 0, stage.log.read_text()
            assert stage.log.read_text().count(WAITING) == 1


def test_an_exporter_outlives_the_broker(own_broker: Broker, own_kafka: KafkaSettings) -> None:
    """While it is away exports fail; when it is back they succeed, and what it acknowledged is there."""
    with administering(own_kafka) as admin:
        create(admin, own_kafka, partitions=1)
    exporter = KafkaSpanExporter(own_kafka, timeout_s=4)
    assert exporter.export([span(1, 1)]) is SpanExportResult.SUCCESS
    own_broker.kill()
    assert not answers(own_broker.bootstrap)
    assert exporter.export([span(1, 2)]) is SpanExportResult.FAILURE
    own_broker.start()
    assert exporter.export([span(1, 3)]) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert exporter.export([span(1, 4)]) is SpanExportResult.FAILURE
    assert [arrived_span.name for arrived_span in arrived(own_kafka)] == ["1", "3"]


def test_alerts_are_sent_while_the_broker_is_away(
    own_broker: Broker, own_kafka: KafkaSettings, tmp_path: Path
) -> None:
    """Though Kafka cannot record a delivery, Alertmanager receives the alerts that fire, again and again.

    When the broker is back, each alert is written once, and delivered.
    """
    kafka, (before, behind) = with_topics(own_kafka), halves()
    rates = write_rates(tmp_path)
    with hook() as receiver, process(kafka, rates, "--alertmanager", receiver.url) as alerting:
        receiver.status = 503
        send_verdicts(kafka, before)
        until("it has tried", lambda: receiver.posts)
        own_broker.kill()
        receiver.status = 200
        receiver.posts.clear()
        until("it is sent again", lambda: len(receiver.posts) > 2)
        own_broker.start()
        send_verdicts(kafka, behind)
        until_delivered(kafka)
        assert alerting.poll() is None
        check_one_alert(alerts(kafka))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    """Conversations, their records, and what must come of them."""
    return proof(write_pack(tmp_path_factory.mktemp("pack")))


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of sessions that every process has, and the audit."""
    for name, value in SESSIONS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def separate_kafka(own_kafka: KafkaSettings) -> KafkaSettings:
    """A broker that the test may kill, with topics."""
    make_topics(own_kafka)
    return own_kafka


def test_workers_come_and_go_and_so_does_the_broker(
    own_broker: Broker,
    separate_kafka: KafkaSettings,
    made: Proof,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each process one works, then two, of which one is killed, then another two; spans come all the time.

    The broker is killed, and comes back. When it is gone for good a monitor that is to end does not wait.
    """
    pipeline = Pipeline(separate_kafka, made.pack, tmp_path)
    starts = (pipeline.rekey, pipeline.monitor, pipeline.archiver)
    size = len(made.records) // 6
    with (
        closing(Sender(separate_kafka, made)) as sender,
        closing(Listener(separate_kafka)) as listener,
        ExitStack() as stack,
    ):

        def started(name: str) -> list[Stage]:
            return [stack.enter_context(start(name)) for start in starts]

        first = started("first")
        sender.send(size)
        listener.until(lambda found: bool(found.places))
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
        listener.until(sender.is_complete, within_s=WAIT_S)
        until_carried(separate_kafka)
        rekey, monitor, archiver = third
        stop(rekey, archiver)
        found = listener.until(lambda _: False, alive=lambda: False)
        own_broker.kill()
        monitor.process.terminate()
        # While it tries to finish, which takes its time.
        assert_whole(pipeline, sender, found)
        assert monitor.ended() == 2
        log = monitor.log.read_text()
        assert "TRL745" in log
        assert "judged again at the next start" in log
    with capsys.disabled():
        print(f"\nnine processes; {found.again} messages sent twice, {len(made.ids)} verdicts")


def until_shared(stage: Stage) -> None:
    """Wait until the process has some of the partitions, and others the rest."""

    def is_shared() -> bool:
        assigned = re.findall(r"assigned partitions (.*)", stage.log.read_text())
        return bool(assigned) and len(assigned[-1].split()) < SOURCES

    until(f"{stage.log.stem} has some partitions", is_shared, within_s=SHARED_S)
