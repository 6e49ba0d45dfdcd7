"""A real Apache Kafka on this machine: one KRaft node that can be killed and restarted with its data.

The jars are in `.kafka/libs` (`make kafka`); the machine's Java runs them. As a program, this module writes
Java's class data archive to `.kafka`, with which every node starts in two thirds of the time.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

LIBS = Path(__file__).parents[1] / ".kafka" / "libs"
CLASSES = LIBS.with_name("classes.jsa")
"""Java's class data archive; Java ignores one of another Java."""
WAIT_S = 120.0
"""Maximum seconds for a broker to start and to stop."""
POLL_S = 0.1
JAVA = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dlog4j2.configurationFile=log4j2.properties",
)
"""Options for a quick start and little memory."""
PROPERTIES: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    # The controller admits a restarted node only after the session of the killed one has timed out.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    # By default Kafka deletes expired records every five minutes, possibly in the middle of a test.
    "log.initial.task.delay.ms": 1000,
    "log.retention.check.interval.ms": 1000,
}
"""The properties of a node on a laptop, with short timeouts, so that a killed process is detected soon."""
LOGGING = """
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n%throwable
"""


def missing() -> str | None:
    """Return what a broker on this machine lacks, and how to install it; None if nothing is missing."""
    if shutil.which("java") is None:
        return "Java is not installed: apt-get install default-jdk-headless maven, then make kafka"
    if not any(LIBS.glob("kafka_*.jar")):
        return "Apache Kafka's jars are not in .kafka/libs: make kafka"
    return None


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@dataclass
class Broker:
    """One node on 127.0.0.1, with its configuration, data and log in `folder`.

    `properties` override `PROPERTIES`; `java` are further options of Java.
    """

    folder: Path
    properties: Mapping[str, object] = field(default_factory=dict[str, object])
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    java: tuple[str, ...] = ()

    @property
    def bootstrap(self) -> str:
        """Return the address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """Return the log file of the broker."""
        return self.folder / "broker.log"

    def start(self, *, wait: bool = True) -> None:
        """Start the node with the topics of its folder, and wait until it answers."""
        assert self.process is None, "the broker is running"
        config = self.folder / "server.properties"
        if not config.exists():
            self._format(config)
        self.process = self._java("kafka.Kafka", config.name)
        if wait:
            self.answering()

    def answering(self) -> None:
        """Wait until the broker answers. Raises AssertionError with the end of its log if it does not."""
        until = time.monotonic() + WAIT_S
        while not answers(self.bootstrap):
            assert self.process is not None, "the broker was not started"
            assert time.monotonic() < until, f"no answer:\n{self.log.read_text()[-4000:]}"
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL_S)
                raise AssertionError(f"the broker has exited:\n{self.log.read_text()[-4000:]}")

    def kill(self) -> None:
        """Kill the node; acknowledged records are in its folder."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the node, and wait until it has exited."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill the node if it runs, and start it with the same data on the same port."""
        self.kill()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(WAIT_S)
            self.process = None

    def _format(self, config: Path) -> None:
        """Write the configuration, and format the data folder."""
        addresses = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "log.dirs": self.folder / "data",
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        properties = {**PROPERTIES, **addresses, **self.properties}
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        node = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ("kafka.tools.StorageTool", "format", "--standalone")
        formatting = self._java(*tool, f"--cluster-id={node}", "-c", config.name)
        assert formatting.wait(WAIT_S) == 0, self.log.read_text()

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Run a class of the jars in the folder, with its output in the log."""
        classes = (f"-XX:SharedArchiveFile={CLASSES}",) if CLASSES.exists() else ()
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["java", *JAVA, *classes, *self.java, "-cp", f"{LIBS}/*", *arguments],
                cwd=self.folder,
                env={name: value for name, value in os.environ.items() if name != "CLASSPATH"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )


def answers(bootstrap: str, *, within_s: float = 1.0) -> bool:
    """Return whether a broker at that address is part of a cluster."""
    host, _, port = bootstrap.partition(":")
    try:
        # librdkafka would wait for a broker that does not listen.
        socket.create_connection((host, int(port)), timeout=within_s).close()
        # A starting broker accepts connections before it handles requests.
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        return bool(admin.list_topics(timeout=within_s).brokers)
    except (OSError, KafkaException):
        return False


def archive_classes() -> None:
    """Start and stop a node, and store Java's class data archive as `CLASSES`, if Java writes one."""
    CLASSES.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=LIBS.parent) as name:
        written = Path(name) / CLASSES.name
        broker = Broker(Path(name) / "kafka", java=(f"-XX:ArchiveClassesAtExit={written}",))
        try:
            broker.start()
            broker.stop()
        finally:
            broker.kill()
        if written.exists():
            written.replace(CLASSES)


if __name__ == "__main__":
    archive_classes()
