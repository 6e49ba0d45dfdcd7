"""`tracline stream archive`: copy judged events from their topic to an archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...options import Command, Seconds, health_options, note
from ...settings import kafka_settings
from ...stopping import stopping
from .group import broker_option, timeout_option, wait_option

if TYPE_CHECKING:
    from ....stream.ingest.server.sockets import Address

ROWS = 50_000
EVERY_S = 900.0
TIMEOUT_S = 10.0


@click.command("archive", cls=Command)
@click.option(
    "--archive",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("tracline-archive"),
    show_default=True,
    metavar="FOLDER",
    help="The archive to which judged events are written, for `tracline audit`.",
)
@click.option(
    "--rows",
    type=click.IntRange(1, 10_000_000),
    default=ROWS,
    show_default=True,
    help="How many events of a partition are gathered before they are written.",
)
@click.option(
    "--every-s",
    type=Seconds(0, 86_400),
    default=EVERY_S,
    show_default=True,
    help="After how many seconds those that there are are written, by the time of the messages. Each time"
    " makes a file for each partition.",
)
@timeout_option(TIMEOUT_S, "others take over its partitions")
@wait_option()
@health_options
@broker_option()
def command(
    archive: Path,
    rows: int,
    every_s: float,
    timeout_s: float,
    wait_s: float,
    address: Address,
    bootstrap_servers: str | None,
) -> None:
    """Copy judged events from Kafka to an archive, each once.

    Several of these processes may write to one folder of a local file system: each has some partitions of
    the topic. A restart goes on where the archive's manifest says, whenever it was killed. On SIGTERM or
    Ctrl-C the process writes what it has gathered, leaves the group and exits 0.
    """
    from hashlib import sha256

    from ....archive.shared_writer import LiveArchive
    from ....stream.group.archive import ArchiveRuntime
    from ....stream.kafka.archive_process import DEAD_LETTER_CODES, archive_process, source_of
    from ....stream.kafka.health import serving
    from ....stream.kafka.topics import StartWait
    from ....stream.messages.topics import Topic
    from ....stream.process.metrics import ArchiveMetrics
    from ....stream.stages.archive import ChunkLimits

    kafka = kafka_settings({"bootstrap_servers": bootstrap_servers})
    judged = kafka.topic(Topic.JUDGED)
    metrics = ArchiveMetrics([judged], DEAD_LETTER_CODES)
    runtime = ArchiveRuntime(
        metrics=metrics,
        report=lambda text: note(f"archive: {text}"),
        stopping=stopping(),
        timeout_s=timeout_s,
    )
    source = source_of(kafka, StartWait(wait_s, runtime.stopping, runtime.report))
    if source is None:
        return
    name, identity = source
    files = LiveArchive(archive, name, sha256(identity.encode()).hexdigest())
    process = archive_process(kafka, files, runtime, ChunkLimits(rows=rows, every_s=every_s))
    with serving(metrics.kafka, address, lambda: process.is_ready) as port:
        note(f"archive: reads {judged}; metrics and health on {address.url(port)}")
        process.run()
