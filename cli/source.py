"""What the commands share that read archives and logs: the zone of times, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .error import command_error
from .options import note
from .terminal import quoted

if TYPE_CHECKING:
    from ..batch.sources.discover import Reject
    from ..schemas.instrumentations.census import SpanCensus

REJECTS_SHOWN = 10
"""Rejected input that is told one by one."""

F = TypeVar("F", bound=Callable[..., Any])


def timezone_option() -> Callable[[F], F]:
    """`--timezone ZONE`: the str `timezone`, a name for `batch.importing.run.zone_of`."""
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


def allow_empty_option() -> Callable[[F], F]:
    """`--allow-empty`: the bool `allow_empty`."""
    return click.option(
        "--allow-empty", is_flag=True, help="Accept spans none of which tells of a conversation; else exit 2."
    )


def report_unread(spans: SpanCensus, events: int, source: str, *, allow_empty: bool) -> int:
    """Say on standard error that no event is read from the spans, or from those of an agent framework.

    Return the exit code: 2, after an error (TRL605), where there is no event at all and that is not allowed.
    """
    from ..schemas.instrumentations.census import unread_text

    hint = f"run `tracline doctor {source}`; docs/spans.md says which spans are read"
    if spans.is_unread and not (events or allow_empty):
        error = command_error(
            "TRL605", source, unread_text(spans.spans), f"{hint}; --allow-empty accepts them"
        )
        error.show()
        return error.exit_code
    if silent := spans.spans if spans.is_unread else spans.unread_frameworks:
        note(f"{quoted(source)}: {quoted(unread_text(silent))}\n  hint: {quoted(hint)}")
    return 0


def report_empty(rows: int, source: str) -> None:
    """Say on standard error that a source holds no rows: nothing happened in it."""
    if not rows:
        note(f"{quoted(source)}: holds no rows: there is nothing to judge")


def report_rejected(
    rejects: Sequence[Reject], by_reason: Mapping[str, int], source: str, allowed: int
) -> None:
    """Name on standard error what could not be read, the first ones and how many in all.

    Raises CommandError (TRL603) where it is more than allowed; else `--quiet` silences it.
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
    raise command_error("TRL603", source, f"{count:,} rejected, more than --allow-rejected {allowed}", hint)
