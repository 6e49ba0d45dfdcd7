"""`tracline alerts rates`: learn tolerated violation rates from an archive."""

from __future__ import annotations

from pathlib import Path

import click

from ...options import Command, Instant, note, rules_option
from ...source import allow_rejected_option, chat_options, sources_argument, timezone_option
from ..audit.predicting import PredictOptions, predict_options
from .group import PREDICT_HELP, TICK_S, note_unlearned, read_history


@click.command("rates", cls=Command)
@sources_argument("archive", "ARCHIVE")
@rules_option()
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The file for the rates; an existing file is replaced.",
)
@click.option("--until", type=Instant(), metavar="TIME", help="Ignore statuses from this time on.")
@click.option(
    "--tick-s",
    type=click.IntRange(min=1),
    default=TICK_S,
    show_default=True,
    metavar="S",
    help="Seconds of event time per tick.",
)
@predict_options(PREDICT_HELP)
@timezone_option()
@chat_options()
@allow_rejected_option()
def command(
    archive: tuple[str, ...],
    rules: tuple[str, ...],
    out: Path,
    until: int | None,
    tick_s: int,
    predicting: PredictOptions,
    timezone: str,
    allow_rejected: int,
) -> None:
    """Learn the tolerated rate of violating sessions from an archive, by rule and agent.

    The output is JSON for the option --rates of `tracline stream alerts` and `tracline alerts backtest`.
    Exclude times with spikes: otherwise the learned rates tolerate such spikes.
    """
    from ....stream.alerts.history import learn_rates
    from ....stream.alerts.rates import encode

    history = read_history(archive, rules, timezone, allow_rejected, predicting)
    learned = history if until is None else history.before(until)
    note_unlearned(learned)
    if not learned.statuses:
        note("`tracline audit --tolerate` refuses rates that were learned from no session")
    rates = learn_rates(learned.statuses, tick_s, history.idle_s)
    out.write_bytes(encode(rates))
    note(f"{out}: {sum(len(rule.agents) for rule in rates.rules):,} rates of {len(rates.rules):,} rules")
