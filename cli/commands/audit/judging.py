"""The options of `tracline audit` for what is judged, which verdicts are written, and the threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...options import Instant, grouped_options
from ...source import audit_options, chat_options, timezone_option

if TYPE_CHECKING:
    from ....batch.prepare.options import AuditOptions

F = TypeVar("F", bound=Callable[..., Any])

SEED_MAX = (1 << 53) - 1
"""The largest integer that canonical JSON has, in which a bundle states the seed."""


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """The period, the time zone, the threads and the drawn sessions of an audit.

    Times are nanoseconds since the epoch.
    """

    since: int | None
    until: int | None
    as_of: int | None
    satisfied: bool
    timezone: str
    threads: int | None
    seed: int
    with_text: bool

    def set_threads(self) -> None:
        """Set the threads of Polars, and its allocator for them.

        Polars starts its threads, and its allocator reads its settings, on the first import.
        """
        from ....batch.prepare.options import ALLOCATOR, allocator_settings

        if self.threads is not None:
            os.environ.setdefault("POLARS_MAX_THREADS", str(self.threads))
        if "polars" not in sys.modules:
            os.environ.setdefault(ALLOCATOR, allocator_settings(self._thread_count))

    def audit_options(self) -> AuditOptions:
        """Return the options of the audit, with those for chat logs."""
        return audit_options(
            self.timezone,
            since=self.since,
            until=self.until,
            as_of=self.as_of,
            satisfied=self.satisfied,
            threads=self._thread_count,
            seed=self.seed,
            with_text=self.with_text,
        )

    @property
    def _thread_count(self) -> int:
        return self.threads or os.cpu_count() or 1


def _checked_seed(_ctx: click.Context, _param: click.Parameter, seed: int) -> int:
    """Return the seed. Raises BadParameter if a bundle cannot state it."""
    if abs(seed) > SEED_MAX:
        raise click.BadParameter(f"must be between -{SEED_MAX} and {SEED_MAX}")
    return seed


def judging_options() -> Callable[[F], F]:
    """Return the options from `--since` to `--with-text`: the JudgingOptions `judging`."""
    return grouped_options(
        "judging",
        JudgingOptions,
        click.option(
            "--since", type=Instant(), metavar="TIME", help="Omit verdicts before this time or day."
        ),
        click.option(
            "--until", type=Instant(), metavar="TIME", help="Omit verdicts from this time or day on."
        ),
        click.option(
            "--as-of",
            type=Instant(),
            metavar="TIME",
            help="Judge as of this time: ignore later events; sessions open at that time are open.",
        ),
        click.option("--satisfied", is_flag=True, help="Write satisfied and held verdicts too."),
        timezone_option(),
        chat_options(),
        click.option(
            "--threads",
            type=click.IntRange(min=1),
            metavar="N",
            help="The number of threads.  [default: one per processor]",
        ),
        click.option(
            "--seed",
            type=int,
            default=0,
            show_default=True,
            metavar="N",
            callback=_checked_seed,
            help="The random seed of the sessions without a violation that the report draws.",
        ),
        click.option(
            "--with-text", is_flag=True, help="Put the texts of drawn events into the bundle and the report."
        ),
    )
