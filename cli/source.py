"""What the commands share that read archives and logs: the zone of times, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .error import world_error
from .options import note
from .shown import quoted

if TYPE_CHECKING:
    from ..batch.read import Reject

REJECTS_SHOWN = 10
"""Rejected input that is told one by one."""

F = TypeVar("F", bound=Callable[..., Any])


def timezone_option() -> Callable[[F], F]:
    """`--timezone ZONE`: the str `timezone`, a name for `batch.importing.zone_of`."""
    return click.option(
        "--timezone",
        default="UTC",
        show_default=True,
        metavar="ZONE",
        help="The time zone, as an IANA name, of times without an offset in chat logs.",
    )


def allow_rejected_option() -> Callable[[F], F]:
    """`--allow-rejected N`: the int `allow_rejected`, 0 where it is not given."""
    return click.option(
        "--allow-rejected",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="Accept up to N files, rows, messages or spans that cannot be read; more exit 2.",
    )


def tell_rejected(rejects: Sequence[Reject], by_reason: Mapping[str, int], source: str, allowed: int) -> None:
    """Name on standard error what could not be read, the first ones and how many in all.

    Raises WorldError (TRL603) where it is more than allowed; else `--quiet` silences it.
    """
    count = sum(by_reason.values())
    if not count:
        return
    told = [f"{reject.file}: {reject.position}: {reject.code}: {reject.text}" for reject in rejects]
    told[REJECTS_SHOWN:] = [
        "rejected: " + ", ".join(f"{number:,} {code}" for code, number in by_reason.items())
    ]
    shown = "\n".join(map(quoted, told))
    if count <= allowed:
        note(shown)
        return
    click.echo(shown, err=True)
    hint = "mend the source, or say how much of it may be left out"
    raise world_error("TRL603", source, f"{count:,} rejected, more than --allow-rejected {allowed}", hint)
