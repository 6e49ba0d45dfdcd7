"""A real Apache Kafka on this machine: one KRaft node, which can be killed and comes back with its data.

The jars are in `.kafka/libs` (`make kafka`); the machine's Java runs them. Run as a program, it keeps in
`.kafka` what Java makes of their classes, from which every node here starts in two thirds of the time.
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
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

LIBS = Path(__file__).parents[1] / ".kafka" / "libs"
CLASSES = LIBS.with_name("classes.jsa")
"""Where Java keeps what it made of the classes; where there is none, or another Java's, it does so anew."""
WAIT_S = 120.0
"""How long a broker may take to answer after its start, and to end when asked to."""
POLL_S = 0.1
JAVA = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dlog4j2.configurationFile=log4j2.properties",
)
"""A quick start and little memory; the second matter more to tests than the last third of speed."""
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
    # A killed node is let in again only when its controller has missed it for this long.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    # Else what is too old to be kept is deleted every five minutes: by chance, in the midst of something.
    "log.initial.task.delay.ms": 1000,
    "log.retention.check.interval.ms": 1000,
}
"""What a node on a laptop needs, and what makes tests quick: who is killed must be missed soon."""
LOGGING = """
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n%throwable
"""


def missing() -> str | None:
    """Return what is missing here for a broker of our own, and what to do; None where nothing is."""
    if shutil.which("java") is None:
        return "there is no Java here: apt-get install default-jdk-headless maven, then make kafka"
    if not any(LIBS.glob("kafka_*.jar")):
        return "Apache Kafka's jars are not in .kafka/libs: make kafka"
    return None


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@dataclass
class Broker:
    """One node, whose configuration, data and log are in `folder`; it listens on 127.0.0.1.

    `properties` are added to, and win over, those of every broker here; `java` is added to its options.
    """

    folder: Path
    properties: Mapping[str, object] = field(default_factory=dict[str, object])
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    java: tuple[str, ...] = ()

    @property
    def bootstrap(self) -> str:
        """The address, as clients want it."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """Return what the broker has said since it was first started."""
        return self.folder / "broker.log"

    def start(self, *, wait: bool = True) -> None:
        """Start the node, with empty topics or those of its folder, and wait until it answers."""
        assert self.process is None, "it runs already"
        config = self.folder / "server.properties"
        if not config.exists():
            self._format(config)
        self.process = self._java("kafka.Kafka", config.name)
        if wait:
            self.answering()

    def answering(self) -> None:
        """Wait until the broker answers; AssertionError with its last words where it does not."""
        until = time.monotonic() + WAIT_S
        while not answers(self.bootstrap):
            assert self.process is not None, "it was not started"
            assert time.monotonic() < until, f"no answer:\n{self.log.read_text()[-4000:]}"
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL_S)
                raise AssertionError(f"it has ended:\n{self.log.read_text()[-4000:]}")

    def kill(self) -> None:
        """End the node as a power cut does; what it had acknowledged is in its folder."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask the node to end, and wait for that."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill the node where it runs, and start it over the same data on the same port."""
        self.kill()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(WAIT_S)
            self.process = None

    def _format(self, config: Path) -> None:
        """Write the configuration, and make the data folder what the node expects."""
        own = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "log.dirs": self.folder / "data",
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        every = {**PROPERTIES, **own, **self.properties}
        config.write_text("".join(f"{name}={value}\n" for name, value in every.items()))
        node = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ("kafka.tools.StorageTool", "format", "--standalone")
        formatting = self._java(*tool, f"--cluster-id={node}", "-c", config.name)
        assert formatting.wait(WAIT_S) == 0, self.log.read_text()

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Run a class of the jars in the folder; what it says goes to the log."""
        kept = (f"-XX:SharedArchiveFile={CLASSES}",) if CLASSES.exists() else ()
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["java", *JAVA, *kept, *self.java, "-cp", f"{LIBS}/*", *arguments],
                cwd=self.folder,
                env={name: value for name, value in os.environ.items() if name != "CLASSPATH"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )


def answers(bootstrap: str, *, within_s: float = 1.0) -> bool:
    """Return whether a broker at that address says that it is part of a cluster."""
    host, _, port = bootstrap.partition(":")
    try:
        # kafka-python leaves a socket open for each connection that is refused.
        socket.create_connection((host, int(port)), timeout=within_s).close()
        # A broker that starts lets connections in before it takes requests.
        options: dict[str, Any] = {"bootstrap_timeout_ms": int(within_s * 1000)}
        admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap, **options)
    except (OSError, KafkaError):
        return False
    try:
        return bool(admin.describe_cluster()["brokers"])
    except KafkaError:
        return False
    finally:
        admin.close()


def keep_classes() -> None:
    """Have a node start and end, and keep in `CLASSES` what Java made of the classes that it needed.

    Where Java cannot keep it nothing is kept.
    """
    CLASSES.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=LIBS.parent) as name:
        kept = Path(name) / CLASSES.name
        broker = Broker(Path(name) / "kafka", java=(f"-XX:ArchiveClassesAtExit={kept}",))
        try:
            broker.start()
            broker.stop()
        finally:
            broker.kill()
        if kept.exists():
            kept.replace(CLASSES)


if __name__ == "__main__":
    keep_classes()
