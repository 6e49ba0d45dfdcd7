"""`tracline stream activate`: activate rule packs while the pipeline runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ....schemas.display import visible
from ...error import CommandError
from ...options import Command, note
from ...settings import kafka_settings
from ...terminal import clean, quoted
from .group import broker_option

if TYPE_CHECKING:
    from ....rules.model.rule import RuleSet
    from ....stream.kafka.care.activate import ChainToFollow

DIGEST = re.compile("[0-9a-f]{64}")


@click.command("activate", cls=Command)
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@click.option(
    "--supersede",
    multiple=True,
    metavar="DIGEST",
    help="An activated rule set that crashes every monitor; these packs replace it.",
)
@click.option(
    "--predict",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="CHAIN",
    help="The folder of the chain that follows the risks of the rules.",
)
@click.option(
    "--force", is_flag=True, help="With --predict: activate even if a live monitor lacks the chain."
)
@broker_option()
def command(
    packs: tuple[str, ...],
    supersede: tuple[str, ...],
    predict: Path | None,
    force: bool,
    bootstrap_servers: str | None,
) -> None:
    """Activate rule packs, which replace the active ones at one place in the stream of events.

    A PACK is a YAML file, a folder of them, or the name of a shipped pack. If a pack has errors, they are
    printed as by `tracline check` and nothing is activated; the same holds if a trial of the rules in a
    separate process is killed, and with --predict if a live monitor lacks the chain. Prints the digest of the
    rule set, which the events that it judges name in the archive.
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
    if force and predict is None:
        raise click.UsageError("--force requires --predict.")
    # A rule that exceeds a limit fails here, not in a monitor.
    compile_rules(rule_set.rules)
    require_trial(rule_set.sources)
    chain = None if predict is None else _chain(predict, rule_set, is_forced=force)
    from ....rules.model.digest import rule_set_digest
    from ....rules.model.problem import counted

    kafka = kafka_settings({"bootstrap_servers": bootstrap_servers})
    partitions = activate(kafka, rule_set.sources, supersede, chain)
    note(f"activated {counted(len(rule_set.rules), 'rule')} in {counted(partitions, 'partition')}")
    click.echo(rule_set_digest(rule_set))


def _chain(folder: Path, rule_set: RuleSet, *, is_forced: bool) -> ChainToFollow:
    """Return the chain of a folder. Raises CommandError where it is none, or one of other rules."""
    from ....predict.error import PredictError
    from ....predict.folder.load import load_chain
    from ....predict.following.followed_chain import followed_chain
    from ....stream.kafka.care.activate import ChainToFollow

    try:
        chain = load_chain(folder)
        followed = followed_chain(chain, rule_set, None)
    except PredictError as error:
        raise CommandError("\n".join(map(quoted, str(error).splitlines()))) from error
    if followed.unknown:
        note(clean(f"not learned by the chain: {', '.join(followed.unknown)}"))
    return ChainToFollow(chain.digest, is_forced)
