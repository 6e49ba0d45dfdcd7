"""Reports of what was rejected of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from .error import command_error
from .options import note
from .source import GivenSources, named
from .terminal import quoted

if TYPE_CHECKING:
    from ..batch.sources.discover import Reject

REJECTS_SHOWN = 10
"""Rejects that are printed one by one."""


def report_rejected(
    rejects: Sequence[Reject], by_reason: Mapping[str, int], source: GivenSources, allowed: int
) -> None:
    """Report on standard error the first rejects and their number by reason.

    Raises CommandError (TRL603) if there are more than allowed; otherwise `--quiet` silences the report.
    """
    count = sum(by_reason.values())
    if not count:
        return
    lines = [f"{reject.file}: {reject.position}: {reject.code}: {reject.text}" for reject in rejects]
    lines[REJECTS_SHOWN:] = [
        "rejected: " + ", ".join(f"{number:,} {code}" for code, number in by_reason.items())
    ]
    shown = "\n".join(map(quoted, lines))
    if count <= allowed:
        note(shown)
        return
    click.echo(shown, err=True)
    hint = "fix the source, or raise --allow-rejected"
    raise command_error(
        "TRL603", named(source), f"{count:,} rejected, more than --allow-rejected {allowed}", hint
    )
