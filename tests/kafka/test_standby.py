"""The output of a process that waits, or that no group takes, on a broker with the default patience."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tracline.examples.local_kafka import Broker
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings

from ..support.processes.calling import stream
from ..support.processes.rekeying import until
from ..support.processes.stage import Stage, running
from .conftest import need_own

pytestmark = pytest.mark.slow
WATERMARK = "tracline_watermark_timestamp_seconds"
WAITS = "standby: another process is active"


PATIENT = {"group.initial.rebalance.delay.ms": 2000, "group.min.session.timeout.ms": 6000}


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaSettings]:
    """A broker that waits for further members of a group, and for silent ones; topics of one partition."""
    need_own()
    broker = Broker(tmp_path_factory.mktemp("patient"), PATIENT)
    try:
        broker.start()
        kafka = KafkaSettings((broker.bootstrap,))
        with administering(kafka) as admin:
            create(admin, kafka, partitions=1)
        yield kafka
    finally:
        broker.kill()


def test_a_waiting_process_reports_it_and_shows_nothing_of_the_others_work(
    patient: KafkaSettings, tmp_path: Path
) -> None:
    """Alone, none reports another at work; one that lost its place does so once, and its time is not old."""
    rules = ("--rules", "privacy")
    with (
        running(patient, tmp_path / "rekey", "rekey") as rekey,
        running(patient, tmp_path / "monitor", "monitor", *rules) as monitor,
        running(patient, tmp_path / "alerts", "alerts") as alerts,
    ):
        for stage in (rekey, monitor, alerts):
            stage.until(WATERMARK, lambda values: values[0:1] > [0.0])
        assert WAITS not in alerts.log.read_text()
        with (
            running(patient, tmp_path / "rekey-2", "rekey") as rekey_2,
            running(patient, tmp_path / "monitor-2", "monitor", *rules) as monitor_2,
            running(patient, tmp_path / "alerts-2", "alerts") as alerts_2,
        ):
            # Who has only just started shows nothing, either.
            until(
                "one reports it",
                lambda: any(WAITS in alerting_stage.log.read_text() for alerting_stage in (alerts, alerts_2)),
            )
            for pair in ((rekey, rekey_2), (monitor, monitor_2), (alerts, alerts_2)):
                until(f"one waits: {pair}", lambda pair=pair: _one_waits(pair))
        waiting = alerts if WAITS in alerts.log.read_text() else alerts_2
        assert waiting.log.read_text().count(WAITS) == 1


def test_a_group_that_does_not_take_a_process_ends_it(patient: KafkaSettings, tmp_path: Path) -> None:
    """A shorter silence than brokers allow: exit code 2, with what to do. Nobody waits for ever."""
    ways = (("rekey",), ("monitor", "--rules", "privacy"), ("archive", "--archive", "a"), ("alerts",))
    with ThreadPoolExecutor(len(ways)) as pool:
        ended = list(pool.map(lambda way: stream(patient, tmp_path, *way, "--timeout-s", "3"), ways))
    for (name, *_), ended_process in zip(ways, ended, strict=True):
        assert ended_process.returncode == 2, ended_process.stderr
        group = patient.group(name)
        assert (
            f"TRL725 brokers do not let a member of {group} be silent for 3 s\n  hint: "
            in ended_process.stderr
        )


def _one_waits(pair: tuple[Stage, Stage]) -> bool:
    """Return whether one of the two shows no time and no lag, and the other the time of now and its lag."""
    times, lags = sorted(time_of(stage) for stage in pair), sorted(map(lags_of, pair))
    return times[0] == 0 and time.time() - times[1] < 20 and lags[0] == 0 < lags[1]


def time_of(stage: Stage) -> float:
    """The watermark that a process shows, minus one before it answers."""
    return next(iter(stage.metric(WATERMARK)), -1.0)


def lags_of(stage: Stage) -> int:
    """Return of how many partitions a process shows the lag; of log records the rekeyer shows their own."""
    return len(stage.metric("tracline_kafka_lag"))
