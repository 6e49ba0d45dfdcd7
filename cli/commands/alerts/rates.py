"""`tracline alerts rates`: learn from an archive which rates of violating sessions are tolerated."""

from __future__ import annotations

from pathlib import Path

import click

from ...options import Command, note, rules_option
from ...source import allow_rejected_option, timezone_option
from ..audit.audit import Instant
from .group import TICK_S, read_history


@click.command("rates", cls=Command)
@click.argument("archive")
@rules_option()
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The file for the rates; an earlier one is replaced.",
)
@click.option("--until", type=Instant(), metavar="TIME", help="Learn from what was said before this time.")
@click.option(
    "--tick-s",
    type=click.IntRange(min=1),
    default=TICK_S,
    show_default=True,
    metavar="S",
    help="Seconds of event time that are counted together.",
)
@timezone_option()
@allow_rejected_option()
def command(
    archive: str,
    rules: tuple[str, ...],
    out: Path,
    until: int | None,
    tick_s: int,
    timezone: str,
    allow_rejected: int,
) -> None:
    """Learn from an archive which rates of violating sessions are tolerated, by rule and agent.

    What is written is JSON, which `tracline stream alerts` and `tracline alerts backtest` read with --rates.
    A time with spikes in it teaches to tolerate them: leave it out.
    """
    from ....stream.alerts.history import learned
    from ....stream.alerts.rates import encode

    told = read_history(archive, rules, timezone, allow_rejected)
    rates = learned(told.said if until is None else told.before(until), tick_s, told.idle_s)
    out.write_bytes(encode(rates))
    note(f"{out}: {sum(len(one.agents) for one in rates.rules):,} rates of {len(rates.rules):,} rules")
