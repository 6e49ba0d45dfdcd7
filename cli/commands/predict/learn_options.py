"""The options of `tracline predict learn`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ....schemas.time import rfc3339
from ...options import Instant, NumberType, grouped_options
from ...source import audit_options, chat_options, timezone_option

if TYPE_CHECKING:
    from ....batch.prepare.options import AuditOptions
    from ....predict.learning.learn import Learning

F = TypeVar("F", bound=Callable[..., Any])

HORIZON_MAX = 1_000
"""The longest horizon but that of ever."""

HORIZON = 5
"""The horizon where none is given, beside 1 and that of ever."""


@dataclass(frozen=True, slots=True)
class LearnChoices:
    """The options as given; times are nanoseconds since the epoch."""

    within: tuple[int, ...]
    history: str
    smoothing: str
    by: str
    hold_out: float
    seed: int
    confidence: float
    eps: float
    delta: float
    valid: Path | None
    since: int | None
    until: int | None
    timezone: str
    threads: int | None

    def learning(self) -> Learning:
        """Return the options of learning. Raises PredictError for a file of pairs that is none."""
        from ....predict.counting.split import Split
        from ....predict.estimation.options import EstimateOptions, alpha_of
        from ....predict.learning.impossible import read_pairs
        from ....predict.learning.learn import Learning
        from ....predict.learning.options import LearnOptions
        from ....predict.risk.rule_risks import RiskOptions

        if self.valid is not None and self.smoothing in ("nested", "none"):
            raise click.UsageError("--valid needs --smoothing jeffreys or laplace:A.")
        pairs = None if self.valid is None else read_pairs(self.valid.read_bytes(), str(self.valid))
        estimate = EstimateOptions(alpha_of(self.smoothing), self.history == "machine", pairs or frozenset())
        options = LearnOptions(
            RiskOptions((*sorted({1, *(self.within or (HORIZON,))}), None), estimate),
            confidence=self.confidence,
            eps=self.eps,
            delta=self.delta,
        )
        by = None if self.by == "none" else self.by
        return Learning(options, Split(self.hold_out, self.seed), by)

    def period(self) -> tuple[str | None, str | None]:
        """Return the times between which sessions are read, for `chain.json`."""
        since, until = (None if time is None else rfc3339(time) for time in (self.since, self.until))
        return since, until

    def audit_options(self) -> AuditOptions:
        """Return the options for reading the archive."""
        threads = self.threads or os.cpu_count() or 1
        return audit_options(self.timezone, since=self.since, until=self.until, threads=threads)


def _smoothing(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return the smoothing. Raises BadParameter for any other text."""
    from ....predict.estimation.options import alpha_of

    try:
        alpha_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return value


def _open(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
    """Return a number between 0 and 1. Raises BadParameter for any other."""
    if not 0 < value < 1:
        raise click.BadParameter("must be between 0 and 1, which are excluded")
    return value


def learn_options() -> Callable[[F], F]:
    """Return the options from `--within` to `--threads`: the LearnChoices `choices`."""
    return grouped_options(
        "choices",
        LearnChoices,
        click.option(
            "--within",
            type=click.IntRange(1, HORIZON_MAX),
            multiple=True,
            metavar="K",
            help=f"A horizon in events; may be repeated.  [default: {HORIZON}, beside 1 and ever]",
        ),
        click.option(
            "--history",
            type=click.Choice(["machine", "none"]),
            default="machine",
            show_default=True,
            help="Whether the next event depends on what the rule remembers; `none` is for comparison.",
        ),
        click.option(
            "--smoothing",
            default="nested",
            show_default=True,
            metavar="HOW",
            callback=_smoothing,
            help="The estimate: nested, jeffreys, none, or laplace:A (Pro2Guard).",
        ),
        click.option(
            "--by",
            type=click.Choice(["none", "agent", "model"]),
            default="none",
            show_default=True,
            help="Distinguish the sessions of each agent or model.",
        ),
        *_evidence_options(),
        click.option("--since", type=Instant(), metavar="TIME", help="Omit sessions that ended before."),
        click.option("--until", type=Instant(), metavar="TIME", help="Omit sessions that began later."),
        timezone_option(),
        chat_options(),
        click.option(
            "--threads",
            type=click.IntRange(min=1),
            metavar="N",
            help="The number of threads.  [default: one per processor]",
        ),
    )


def _evidence_options() -> tuple[Callable[[Any], Any], ...]:
    """Return the options for what is held out, and for intervals and sample sizes."""

    def ratio(name: str, default: float, help: str) -> Callable[[Any], Any]:
        return click.option(
            name, type=float, default=default, show_default=True, metavar="P", callback=_open, help=help
        )

    return (
        click.option(
            "--hold-out",
            type=NumberType(0, 1, max_open=True),
            default=0.3,
            show_default=True,
            metavar="SHARE",
            help="The share of sessions that give the intervals; with 0 all are learned from.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, (1 << 53) - 1),
            default=0,
            show_default=True,
            metavar="N",
            help="Chooses the sessions that are held out.",
        ),
        ratio("--confidence", 0.95, "The confidence of intervals and thresholds."),
        ratio("--eps", 0.1, "The error of Pro2Guard's sample sizes."),
        ratio("--delta", 0.05, "The error probability of Pro2Guard's sample sizes."),
        click.option(
            "--valid",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Pairs of symbols that cannot follow one another, as JSON: [[first, next], ...].",
        ),
    )
