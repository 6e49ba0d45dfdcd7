"""`tracline stream activate`: bring rule packs into force while the pipeline runs."""

from __future__ import annotations

import re

import click

from ....schemas.display import visible
from ...options import Command, note
from ...settings import kafka_settings
from .group import broker_option

DIGEST = re.compile("[0-9a-f]{64}")


@click.command("activate", cls=Command)
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@click.option(
    "--supersede",
    multiple=True,
    metavar="DIGEST",
    help="A rule set that was activated and that no monitor survives; these packs come into force instead.",
)
@broker_option()
def command(packs: tuple[str, ...], supersede: tuple[str, ...], bootstrap_servers: str | None) -> None:
    """Bring rule packs into force instead of those that are, at one place in the stream of events.

    A PACK is a YAML file, a folder of them, or the name of a shipped pack. What is wrong in them is told as
    `tracline check` tells it, and nothing is activated; so it is where a trial of the rules in a process of
    its own is killed. Prints the digest of the rule set, which archived
    events name that were judged by it.
    """
    from ....rules.compiler.compile import compile_rules
    from ....rules.packs.load import load_packs
    from ....stream.kafka.care.activate import activate
    from ....stream.process.trial import require_trial

    rule_set = load_packs(packs)
    for digest in supersede:
        if not DIGEST.fullmatch(digest):
            hint = "give it as `tracline stream activate` and the monitor print it"
            raise click.UsageError(f"`{visible(digest)[:80]}` is no digest of a rule set: {hint}")
    # A rule that runs into a limit is told here, not by a monitor.
    compile_rules(rule_set.rules)
    require_trial(rule_set.sources)
    from ....rules.model.digest import rule_set_digest
    from ....rules.model.problem import counted

    kafka = kafka_settings({"bootstrap_servers": bootstrap_servers})
    partitions = activate(kafka, rule_set.sources, supersede)
    note(f"activated {counted(len(rule_set.rules), 'rule')} in {counted(partitions, 'partition')}")
    click.echo(rule_set_digest(rule_set))
