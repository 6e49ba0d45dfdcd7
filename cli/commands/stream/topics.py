"""`tracline stream topics`: create or check the topics of the pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ...options import Command, format_option, note
from ...terminal import plain_console
from .group import broker_option

if TYPE_CHECKING:
    from ....stream.kafka.settings import KafkaSettings
    from ....stream.kafka.topic_checks import TopicFlaw
    from ....stream.kafka.topics import FoundTopic
    from ....stream.messages.topics import Topic


@click.command("topics", cls=Command)
@click.option("--create", is_flag=True, help="Create missing topics.")
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    help="With --create: the number of partitions of the topics of spans and of sessions.  [default: 8]",
)
@click.option(
    "--replication",
    type=click.IntRange(1, 100),
    help="With --create: the replication factor.  [default: 1]",
)
@broker_option()
@format_option("table", "json")
def command(
    create: bool, partitions: int | None, replication: int | None, bootstrap_servers: str | None, format: str
) -> None:
    """Create the topics of the pipeline, or check them.

    Exits 1 if a topic is missing, or its configuration would lose or reject records. The number of partitions
    cannot change later: it limits the number of processes of one kind.
    """
    from ....stream.kafka.care import create_topics
    from ....stream.kafka.preflight import administering
    from ....stream.kafka.topic_checks import check
    from ....stream.kafka.topics import look
    from ...settings import kafka_settings

    if not create and (partitions or replication):
        raise click.UsageError("--partitions and --replication require --create.")
    settings = kafka_settings({"bootstrap_servers": bootstrap_servers})
    with administering(settings) as admin:
        if create:
            count = partitions or create_topics.PARTITIONS
            for name in create_topics.create(admin, settings, count, replication or 1):
                note(f"created {name}")
        found = look(admin, settings)
    flaws = check(found, settings)
    if format == "json":
        click.echo(json.dumps(as_data(found, flaws, settings), indent=2))
    else:
        print_topics(found, flaws, settings)
    if any(flaw.harmful for flaw in flaws):
        raise SystemExit(1)


def as_data(
    found: Mapping[Topic, FoundTopic], flaws: Sequence[TopicFlaw], settings: KafkaSettings
) -> list[dict[str, Any]]:
    """Return each topic with its configuration and flaws; a missing topic has 0 partitions."""
    from ....stream.kafka.topics import SPECS

    rows: list[dict[str, Any]] = []
    for spec in SPECS:
        name, topic = settings.topic(spec.topic), found.get(spec.topic)
        rows.append(
            {
                "topic": name,
                "partitions": 0 if topic is None else topic.partitions,
                "replicas": 0 if topic is None else topic.replicas,
                "cleanup_policy": None if topic is None else topic.config.get("cleanup.policy"),
                "flaws": [
                    {"what": flaw.what, "hint": flaw.hint, "harmful": flaw.harmful}
                    for flaw in flaws
                    if flaw.topic == name
                ],
            }
        )
    return rows


def print_topics(
    found: Mapping[Topic, FoundTopic], flaws: Sequence[TopicFlaw], settings: KafkaSettings
) -> None:
    """Print the topics as a table, then their flaws."""
    from rich.table import Table

    console = plain_console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("topic", no_wrap=True)
    for name in ("partitions", "replicas"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("retention", no_wrap=True)
    for row in as_data(found, flaws, settings):
        retention = {"compact": "latest record per key", "delete": "by time"}
        policy = row["cleanup_policy"]
        table.add_row(
            row["topic"],
            str(row["partitions"] or "·"),
            str(row["replicas"] or "·"),
            "" if policy is None else retention.get(policy, policy),
        )
    console.print(table)
    for flaw in flaws:
        mark = "wrong" if flaw.harmful else "differs"
        console.print(f"\n{mark}: {flaw.topic} {flaw.what}\n  hint: {flaw.hint}")
