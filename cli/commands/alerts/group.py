"""`tracline alerts`: what is tolerated, and when an alarm would have been raised, from an archive."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...lazy import LazyGroup
from ...source import report_rejected

if TYPE_CHECKING:
    from ....stream.alerts.history import Said

COMMANDS = {
    "rates": ("alerts.rates", "Learn from an archive which rates of violating sessions are tolerated."),
    "backtest": ("alerts.backtest", "Show when alarms would have been raised over an archive."),
}
"""Each command's module in this room, which exports it as `command`, and its line in the help."""

TICK_S = 300
"""Seconds of a tick, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class StatusHistory:
    """What was said of an archive's sessions, in the order in which it would have been said live."""

    said: list[Said]
    idle_s: float

    @property
    def first(self) -> int:
        """When something was said first; 0 where nothing was."""
        return self.said[0][0] if self.said else 0

    @property
    def last(self) -> int:
        """When something was said last; 0 where nothing was."""
        return self.said[-1][0] if self.said else 0

    def before(self, time: int) -> list[Said]:
        """Return what was said before a time."""
        return [one for one in self.said if one[0] < time]

    def since(self, time: int) -> StatusHistory:
        """Return what was said of occurrences of which nothing was said before a time."""
        known = {(status.session_id, status.occurrence) for at, status in self.said if at < time}
        said = [one for one in self.said if (one[1].session_id, one[1].occurrence) not in known]
        return StatusHistory(said, self.idle_s)


def read_history(archive: str, rules: tuple[str, ...], timezone: str, allow_rejected: int) -> StatusHistory:
    """Judge the archive by the rules. Tells on standard error what could not be read."""
    from ....batch.audit.status_history import status_history
    from ....batch.importing.run import zone_of
    from ....batch.prepare.options import AuditOptions
    from ....batch.sources.discover import Population
    from ....rules.engine.judge import statute_of
    from ....rules.packs.load import load_packs
    from ...settings import session_settings

    statute, sessions, population = statute_of(load_packs(rules)), session_settings(), Population()
    terms = AuditOptions(idle_s=sessions.idle_s, scope=sessions.scope, zone=zone_of(timezone))
    with tempfile.TemporaryDirectory() as scratch:
        rows = status_history(archive, statute, Path(scratch), terms, population)
    report_rejected(population.rejects, population.rejected, archive, allow_rejected)
    return StatusHistory(list(_said(rows.iter_rows(named=True))), sessions.idle_s)


def _said(rows: Iterator[dict[str, Any]]) -> Iterator[Said]:
    """The rows of `batch.audit.status_history` as statuses, each with the time at which it was said."""
    from ....stream.messages.status import Standing, Status

    for row in rows:
        at = row.pop("said")
        row["status"] = Standing(row["status"])
        yield at, Status(**row)


@click.group("alerts", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Alarms about rates: more sessions violate a rule than is tolerated.

    The same detector watches live, in `tracline stream alerts`.
    """
