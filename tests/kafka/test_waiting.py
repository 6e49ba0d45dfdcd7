"""A process that starts while the broker is away waits for it; a tool that a person runs does not."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tracline.examples.local_kafka import Broker
from tracline.stream.kafka.settings import KafkaSettings

from .rekeying import make_topics, until
from .stage import TIMEOUT_S, WAIT_S, Stage, running

pytestmark = pytest.mark.slow

PROCESSES = {
    "rekey": "goes on with partitions",
    "monitor": "goes on with partitions",
    "archive": "goes on with partitions",
    "alerts": "is at work",
}
"""Each process, and its first line once it works."""
WAITING = "waiting for the broker"


@pytest.fixture
def away(own_broker: Broker, own_kafka: KafkaSettings) -> KafkaSettings:
    """A broker that has the topics and is away; whichever test needs it next starts it."""
    make_topics(own_kafka)
    own_broker.kill()
    return own_kafka


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


def test_who_starts_while_the_broker_is_away_waits_for_it(
    own_broker: Broker, away: KafkaSettings, tmp_path: Path
) -> None:
    """Each of the four reports once that it waits, works once the broker is there, and exits 0."""
    with ExitStack() as stack:
        stages = {name: start(stack, away, tmp_path, name) for name in PROCESSES}
        until(
            "all wait",
            lambda: all(has_logged(waiting_stage, WAITING) for waiting_stage in stages.values()),
            within_s=WAIT_S,
        )
        own_broker.start()
        for name, text in PROCESSES.items():
            until(
                f"{name} works", lambda name=name, text=text: has_logged(stages[name], text), within_s=WAIT_S
            )
        for stage in stages.values():
            assert stage.stop() == 0, stage.log.read_text()
            assert stage.log.read_text().count(WAITING) == 1


def test_no_wait_is_longer_than_asked_for(away: KafkaSettings, tmp_path: Path) -> None:
    """With 0 each ends at once, after a moment behind that, with TRL723 as ever; a stopped one ends, too."""
    with ExitStack() as stack:
        rekey = start(stack, away, tmp_path, "rekey")
        for wait_s, names in (("0", PROCESSES), ("1.5", ("monitor",))):
            folder = tmp_path / wait_s
            stages = [start(stack, away, folder, name, "--wait-s", wait_s) for name in names]
            for stage in stages:
                assert stage.ended() == 2
                assert "TRL723 no broker listens" in stage.log.read_text()
                assert stage.log.read_text().count(WAITING) == (wait_s != "0")
        until("it waits", lambda: has_logged(rekey, WAITING), within_s=WAIT_S)
        assert rekey.stop() == 0
