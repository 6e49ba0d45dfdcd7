"""`tracline predict learn`: the chain of each rule, learned from an archive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...options import Command, RuleSelection, note, selected_rules_options
from ...progress import progress_bar
from ...rejected import report_rejected
from ...source import allow_rejected_option, sources_argument
from ...terminal import clean, quoted
from .learn_options import LearnChoices, learn_options

if TYPE_CHECKING:
    from ....predict.learning.learn_rule import RuleLearned


@click.command("learn", cls=Command)
@sources_argument("archive", "ARCHIVE")
@selected_rules_options()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="CHAIN",
    help="The folder for the chain; an existing chain is replaced.",
)
@learn_options()
@allow_rejected_option()
def command(
    archive: tuple[str, ...],
    selection: RuleSelection,
    out: Path,
    choices: LearnChoices,
    allow_rejected: int,
) -> None:
    """Learn from ARCHIVE what sessions do next, and the risk of each rule in each context.

    A context is the last event, what the rule's machine remembers, and the memory formulas under `predict` in
    the pack. The risk is the probability of a verdict against the agent within --within events (1 and `ever`
    are always there). Sessions that are held out give each context an interval that needs no chain.

    \b
        tracline predict learn archive --rules customer-service --out desk.chain
        tracline predict show desk.chain --top 10
    """
    # NumPy's BLAS reads this when it is loaded. Two threads round sums otherwise than one, so that the risks
    # depended on the machine, and they wait for each other in a loop.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from ....batch.prediction.chain_folder import write_learned
    from ....batch.prediction.source_archive import source_archive
    from ....batch.sources.discover import Population
    from ....predict.learning.learn import learn
    from ....predict.learning.learn_rule import fit_warnings

    rule_set, population = selection.load(), Population()
    options, learning = choices.audit_options(), choices.learning()
    with (
        progress_bar() as on_progress,
        source_archive(archive, options, population, on_progress) as sessions,
    ):
        chain = learn(sessions, rule_set, learning, on_progress)
    report_rejected(population.rejects, population.rejected, archive, allow_rejected)
    digest = write_learned(out, chain, *choices.period())
    click.echo("\n".join(table(chain.rules)))
    for rule in chain.rules:
        for text in fit_warnings(rule):
            note(clean(f"warning: {text}"))
    learned = f"{chain.source.learned:,} of {chain.source.sessions:,} sessions"
    if not learning.split.hold_out:
        note("no session is held out: the intervals are of the sessions that the chain was learned from,")
        note("and no threshold has a guarantee")
    note(quoted(f"{out}: chain {digest[:12]}, {len(chain.rules):,} rules from {learned}"))


def table(rules: Sequence[RuleLearned]) -> Iterator[str]:
    """Yield a heading and a line for each rule: its sessions, its contexts, and its longest horizon's fit."""
    width = max([len("rule"), *(len(_name(rule)) for rule in rules)])
    heading = f"{'violating':>9}  {'sessions':>8}  {'contexts':>8}  {'inside':>9}  {'greatest risk':>13}"
    yield f"{'rule':<{width}}  {heading}"
    for rule in rules:
        # The last horizon but that of ever, at which the figures are.
        column = len(rule.fits) - 2
        fit, risks = rule.fits[column], rule.risks.table.values[:, column]
        greatest = max((risk for risk in risks.tolist() if risk == risk), default=0.0)
        inside = f"{fit.contexts - len(fit.outside)}/{fit.contexts}"
        figures = f"{rule.violating:>9,}  {rule.sessions:>8,}  {len(risks):>8,}  {inside:>9}"
        yield f"{_name(rule):<{width}}  {figures}  {greatest:>13.4f}"


def _name(rule: RuleLearned) -> str:
    return clean(f"{rule.counted.pack}/{rule.counted.rule}")
