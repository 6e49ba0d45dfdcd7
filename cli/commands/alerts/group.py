"""`tracline alerts`: learn tolerated violation rates from an archive, and backtest alarms over it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ....schemas.time import UNDATED_BEFORE
from ...lazy import LazyGroup
from ...options import note
from ...rejected import report_rejected
from ...source import audit_options, named
from ..audit.predicting import PredictOptions
from .risk_statuses import with_risks

if TYPE_CHECKING:
    from ....stream.alerts.history import TimedStatus

COMMANDS = {
    "rates": ("alerts.rates", "Learn tolerated violation rates from an archive."),
    "backtest": ("alerts.backtest", "Show when alarms would have fired over an archive."),
}
"""The module of each command, which exports it as `command`, and its line in the help."""

PREDICT_HELP = "Count the sessions at risk by the chain, too, as live alerts do."

TICK_S = 300
"""Default seconds per tick."""


@dataclass(frozen=True, slots=True)
class StatusHistory:
    """The session statuses of an archive with their times, in the order in which they occur live.

    `undated` counts the occurrences that are left out, because their log has no times.
    """

    statuses: list[TimedStatus]
    idle_s: float
    undated: int = 0

    @property
    def occurrences(self) -> int:
        """Return the number of occurrences with a status."""
        return len({(status.session_id, status.occurrence) for _, status in self.statuses})

    @property
    def first(self) -> int:
        """Return the time of the first status, 0 if there is none."""
        return self.statuses[0][0] if self.statuses else 0

    @property
    def last(self) -> int:
        """Return the time of the last status, 0 if there is none."""
        return self.statuses[-1][0] if self.statuses else 0

    def before(self, time: int) -> StatusHistory:
        """Return the statuses before a time."""
        return replace(self, statuses=[item for item in self.statuses if item[0] < time])

    def since(self, time: int) -> StatusHistory:
        """Return the statuses of the occurrences that have no status before a time."""
        known = {(status.session_id, status.occurrence) for at, status in self.statuses if at < time}
        statuses = [
            (at, status)
            for at, status in self.statuses
            if (status.session_id, status.occurrence) not in known
        ]
        return replace(self, statuses=statuses)


def read_history(
    archive: tuple[str, ...],
    rules: tuple[str, ...],
    timezone: str,
    allow_rejected: int,
    predicting: PredictOptions,
) -> StatusHistory:
    """Judge the archive by the rules, and report rejects and what is left out on standard error.

    With a chain the history has the sessions at risk, too.
    """
    import polars as pl

    from ....batch.audit.status_history import status_changes, status_history
    from ....batch.sources.discover import Population
    from ....rules.engine.judge import compile_rule_set
    from ....rules.packs.load import load_packs

    predicting.check()
    rule_set, population = load_packs(rules), Population()
    chain = predicting.chain(rule_set)
    options = audit_options(timezone)
    with tempfile.TemporaryDirectory() as scratch:
        compiled = compile_rule_set(rule_set)
        rows = status_history(archive, compiled, Path(scratch), options, population)
    report_rejected(population.rejects, population.rejected, archive, allow_rejected)
    undated = rows.filter(pl.col("occurrence") < UNDATED_BEFORE).select("session_id", "occurrence").n_unique()
    if undated:
        note(f"{named(archive)}: {undated:,} sessions have no times and are left out")
    dated = rows.filter(pl.col("occurrence") >= UNDATED_BEFORE)
    statuses = list(status_changes(dated))
    if chain is not None:
        with tempfile.TemporaryDirectory() as scratch:
            statuses = with_risks(statuses, archive, rule_set, chain, options, Path(scratch))
    return StatusHistory(statuses, options.idle_s, undated)


def note_unlearned(learned: StatusHistory) -> None:
    """State on standard error that rates are learned from nothing, if that is so."""
    if not learned.statuses:
        from ....stream.alerts.rates import default_rate

        default = f"alarms tolerate the default rate, {default_rate().tolerated:.1%}, in every rule"
        note(f"warning: no session to learn rates from: {default}")


@click.group("alerts", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Learn tolerated violation rates from an archive, and backtest alarms over it.

    `tracline stream alerts` uses the same detector live.
    """
