"""`tracline stream rekey`: read spans and log records, and send their claims by session."""

from __future__ import annotations

import click

from ...options import Command
from ...settings import session_settings
from ...signals import stop_event
from .cycles import rarely_look_for_cycles
from .process_options import ProcessOptions, process_options

TIMEOUT_S = 10.0


@click.command("rekey", cls=Command)
@process_options(
    "rekey",
    TIMEOUT_S,
    "other processes take over its partitions and its transaction is aborted",
    has_instance=True,
)
def command(options: ProcessOptions) -> None:
    """Read spans from Kafka, resolve their sessions, and send their claims to the partition of the session.

    These processes share the work, up to one per partition of the topic of spans. A crash loses and repeats
    nothing. On SIGTERM or Ctrl-C the process finishes its transaction, leaves the group and exits 0.
    """
    from ....stream.group.rekey import RekeyRuntime
    from ....stream.kafka.rekey_process import DEAD_LETTER_CODES, SENDS, rekey_process
    from ....stream.messages.topics import Topic
    from ....stream.process.rekey_metrics import RekeyMetrics
    from ....stream.stages.compile_loops import compile_rekey_loops

    kafka, sessions = options.kafka(), session_settings()
    reads = [kafka.topic(Topic.SPANS), kafka.topic(Topic.LOGS)]
    metrics = RekeyMetrics(reads, map(kafka.topic, SENDS), DEAD_LETTER_CODES)
    runtime = RekeyRuntime(
        instance=options.instance,
        timeout_s=options.timeout_s,
        metrics=metrics,
        report=options.report,
        stopping=stop_event(),
    )
    process = rekey_process(kafka, sessions, runtime, options.wait_s)
    if process is not None:
        compile_rekey_loops()
        rarely_look_for_cycles()
        options.run(process, metrics.kafka, kafka.spans_topic)
