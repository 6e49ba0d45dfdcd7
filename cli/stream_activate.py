"""`tracline stream activate`: bring rule packs into force while the pipeline runs."""

from __future__ import annotations

import click

from .options import Command, note
from .settings import kafka_settings
from .stream import broker_option


@click.command("activate", cls=Command)
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@broker_option()
def command(packs: tuple[str, ...], bootstrap_servers: str | None) -> None:
    """Bring rule packs into force instead of those that are, at one place in the stream of events.

    A PACK is a YAML file, a folder of them, or the name of a shipped pack. What is wrong in them is told as
    `tracline check` tells it, and nothing is activated. Prints the digest of the rule set, which archived
    events name that were judged by it.
    """
    from ..rules.judge import statute_of
    from ..rules.pack import load_packs
    from ..stream.kafka.activate import activate

    rule_set = load_packs(packs)
    # A rule that runs into a limit is told here, not by a monitor.
    statute_of(rule_set)
    from ..rules.digest import rule_set_digest
    from ..rules.error import counted

    kafka = kafka_settings({"bootstrap_servers": bootstrap_servers})
    partitions = activate(kafka, rule_set.sources)
    note(f"activated {counted(len(rule_set.rules), 'rule')} in {counted(partitions, 'partition')}")
    click.echo(rule_set_digest(rule_set))
