"""`tracline stream rekey`: read spans and log records, and send what they tell by session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...options import Command, health_options, note
from ...settings import kafka_settings, session_settings
from ...stopping import stopping
from .group import broker_option, instance_option, timeout_option, wait_option

if TYPE_CHECKING:
    from ....stream.ingest.server.sockets import Address

TIMEOUT_S = 10.0


@click.command("rekey", cls=Command)
@instance_option()
@timeout_option(TIMEOUT_S, "others take over its partitions, and how long one of its transactions may take")
@wait_option()
@health_options
@broker_option()
def command(
    instance: str,
    timeout_s: float,
    wait_s: float,
    address: Address,
    bootstrap_servers: str | None,
) -> None:
    """Read spans from Kafka, find out whose they are, and send what they tell to its session's partition.

    Any number of these processes share the work, as many as the spans' topic has partitions at most. Nothing
    is lost or sent twice when one is killed. On SIGTERM or Ctrl-C the process finishes its transaction,
    leaves the group and exits 0.
    """
    from ....stream.group.rekey import RekeyRuntime
    from ....stream.kafka.health import serving
    from ....stream.kafka.rekey_process import DEAD_LETTER_CODES, SENDS, rekey_process
    from ....stream.messages.topics import Topic
    from ....stream.process.metrics import RekeyMetrics

    kafka, sessions = kafka_settings({"bootstrap_servers": bootstrap_servers}), session_settings()
    reads = [kafka.topic(Topic.SPANS), kafka.topic(Topic.LOGS)]
    metrics = RekeyMetrics(reads, map(kafka.topic, SENDS), DEAD_LETTER_CODES)
    runtime = RekeyRuntime(
        instance=instance,
        timeout_s=timeout_s,
        metrics=metrics,
        report=lambda text: note(f"rekey: {text}"),
        stopping=stopping(),
    )
    process = rekey_process(kafka, sessions, runtime, wait_s)
    if process is None:
        return
    with serving(metrics.kafka, address, lambda: process.is_ready) as port:
        note(f"rekey: reads {kafka.spans_topic}; metrics and health on {address.url(port)}")
        process.run()
