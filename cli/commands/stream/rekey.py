"""`tracline stream rekey`: read spans and log records, and send their claims by session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...options import Command, note
from ...settings import kafka_settings, session_settings
from ...signals import stop_event
from .group import instance_option, process_options, run_process

if TYPE_CHECKING:
    from ....stream.ingest.server.sockets import Address

TIMEOUT_S = 10.0


@click.command("rekey", cls=Command)
@instance_option()
@process_options(TIMEOUT_S, "other processes take over its partitions and its transaction is aborted")
def command(
    instance: str,
    timeout_s: float,
    wait_s: float,
    address: Address,
    bootstrap_servers: str | None,
) -> None:
    """Read spans from Kafka, resolve their sessions, and send their claims to the partition of the session.

    These processes share the work, up to one per partition of the topic of spans. A crash loses and repeats
    nothing. On SIGTERM or Ctrl-C the process finishes its transaction, leaves the group and exits 0.
    """
    from ....stream.group.rekey import RekeyRuntime
    from ....stream.kafka.rekey_process import DEAD_LETTER_CODES, SENDS, rekey_process
    from ....stream.messages.topics import Topic
    from ....stream.process.rekey_metrics import RekeyMetrics

    kafka, sessions = kafka_settings({"bootstrap_servers": bootstrap_servers}), session_settings()
    reads = [kafka.topic(Topic.SPANS), kafka.topic(Topic.LOGS)]
    metrics = RekeyMetrics(reads, map(kafka.topic, SENDS), DEAD_LETTER_CODES)
    runtime = RekeyRuntime(
        instance=instance,
        timeout_s=timeout_s,
        metrics=metrics,
        report=lambda text: note(f"rekey: {text}"),
        stopping=stop_event(),
    )
    process = rekey_process(kafka, sessions, runtime, wait_s)
    if process is not None:
        run_process("rekey", process, metrics.kafka, kafka.spans_topic, address)
