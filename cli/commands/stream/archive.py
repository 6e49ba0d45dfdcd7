"""`tracline stream archive`: copy judged events from their topic to an archive."""

from __future__ import annotations

from pathlib import Path

import click

from ...options import Command, SecondsType, archive_option
from ...signals import stop_event
from .process_options import ProcessOptions, process_options

ROWS = 50_000
EVERY_S = 900.0
TIMEOUT_S = 10.0


@click.command("archive", cls=Command)
@archive_option()
@click.option(
    "--rows",
    type=click.IntRange(1, 10_000_000),
    default=ROWS,
    show_default=True,
    help="Events of a partition to buffer before writing a file.",
)
@click.option(
    "--every-s",
    type=SecondsType(0, 86_400),
    default=EVERY_S,
    show_default=True,
    help="Seconds of message time after which buffered events are written; each write makes a file per"
    " partition.",
)
@process_options("archive", TIMEOUT_S, "other processes take over its partitions")
def command(archive: Path, rows: int, every_s: float, options: ProcessOptions) -> None:
    """Copy judged events from Kafka to an archive, each once.

    Several of these processes may write to one folder of a local file system: they share the partitions of
    the topic. After a crash the process resumes from the archive's manifest. On SIGTERM or Ctrl-C the process
    writes its buffered events, leaves the group and exits 0.
    """
    from hashlib import sha256

    from ....archive.shared_writer import LiveArchive
    from ....stream.group.archive import ArchiveRuntime
    from ....stream.kafka.archive_process import DEAD_LETTER_CODES, archive_process, source_of
    from ....stream.kafka.preflight import StartWait
    from ....stream.messages.topics import Topic
    from ....stream.process.archive_metrics import ArchiveMetrics
    from ....stream.stages.archive import ChunkLimits

    kafka = options.kafka()
    judged = kafka.topic(Topic.JUDGED)
    metrics = ArchiveMetrics([judged], DEAD_LETTER_CODES)
    runtime = ArchiveRuntime(
        metrics=metrics,
        report=options.report,
        stopping=stop_event(),
        timeout_s=options.timeout_s,
    )
    source = source_of(kafka, StartWait(options.wait_s, runtime.stopping, runtime.report))
    if source is None:
        return
    name, identity = source
    files = LiveArchive(archive, name, sha256(identity.encode()).hexdigest())
    process = archive_process(kafka, files, runtime, ChunkLimits(rows=rows, every_s=every_s))
    options.run(process, metrics.kafka, judged)
