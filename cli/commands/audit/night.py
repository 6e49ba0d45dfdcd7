"""The options of a nightly audit, which covers the sessions that closed since the previous one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...options import Instant, grouped_options

if TYPE_CHECKING:
    from ....batch.attestation.chain import PreviousBundle
    from ....batch.prepare.options import AuditOptions

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class NightOptions:
    """The bundle of the night before, or only the time up to which it judged."""

    previous: Path | None
    previous_as_of: int | None

    @property
    def is_given(self) -> bool:
        """Return whether the audit is nightly."""
        return self.previous is not None or self.previous_as_of is not None

    def check(self) -> None:
        """Raise a usage error if the options contradict each other."""
        if self.previous is not None and self.previous_as_of is not None:
            raise click.UsageError("--previous and --previous-as-of exclude each other.")

    def audit_options(
        self, archive: Sequence[str], options: AuditOptions, *, as_judged: bool
    ) -> AuditOptions:
        """Return the options of the audit; those of a nightly one have its times and its files.

        Raises SourceError (TRL441, TRL442) if the archive is not complete, or the bundle does not fit.
        """
        if self.previous is None and self.previous_as_of is None:
            return options
        from ....batch.nights.night_options import night_options
        from ....batch.nights.previous_audit import read_previous_audit

        if self.previous is None:
            assert self.previous_as_of is not None, "one of the two is given"
            return night_options(archive, options, self.previous_as_of, as_judged=as_judged)
        previous = read_previous_audit(self.previous)
        return night_options(archive, options, previous.as_of, previous, as_judged=as_judged)

    def chained(self) -> PreviousBundle | None:
        """Return the previous bundle as the attestation names it. Raises SourceError (TRL458)."""
        from ....batch.attestation.chain import read_previous

        return None if self.previous is None else read_previous(self.previous)


def night_options() -> Callable[[F], F]:
    """Return the options `--previous` and `--previous-as-of`: the NightOptions `night`."""
    return grouped_options(
        "night",
        NightOptions,
        click.option(
            "--previous",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            metavar="BUNDLE",
            help="Cover the sessions that closed after this bundle's --as-of, and not after this audit's.",
        ),
        click.option(
            "--previous-as-of",
            type=Instant(),
            metavar="TIME",
            help="The same without the bundle: to re-perform a night, or to begin a series.",
        ),
    )
