"""`tracline stream activate`: activate rule packs while the pipeline runs."""

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
    help="An activated rule set that crashes every monitor; these packs replace it.",
)
@broker_option()
def command(packs: tuple[str, ...], supersede: tuple[str, ...], bootstrap_servers: str | None) -> None:
    """Activate rule packs, which replace the active ones at one place in the stream of events.

    A PACK is a YAML file, a folder of them, or the name of a shipped pack. If a pack has errors, they are
    printed as by `tracline check` and nothing is activated; the same holds if a trial of the rules in a
    separate process is killed. Prints the digest of the rule set, which the events that it judges name in the
    archive.
    """
    from ....rules.compiler.compile import compile_rules
    from ....rules.packs.load import load_packs
    from ....stream.kafka.care.activate import activate
    from ....stream.process.trial import require_trial

    rule_set = load_packs(packs)
    for digest in supersede:
        if not DIGEST.fullmatch(digest):
            hint = "copy it from the output of `tracline stream activate` or of the monitor"
            raise click.UsageError(f"`{visible(digest)[:80]}` is not the digest of a rule set: {hint}")
    # A rule that exceeds a limit fails here, not in a monitor.
    compile_rules(rule_set.rules)
    require_trial(rule_set.sources)
    from ....rules.model.digest import rule_set_digest
    from ....rules.model.problem import counted

    kafka = kafka_settings({"bootstrap_servers": bootstrap_servers})
    partitions = activate(kafka, rule_set.sources, supersede)
    note(f"activated {counted(len(rule_set.rules), 'rule')} in {counted(partitions, 'partition')}")
    click.echo(rule_set_digest(rule_set))
