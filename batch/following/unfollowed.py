"""The events of a live archive by the chain that followed them when they were judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ...archive.writer import CHAIN_COLUMN
from ...schemas.event import Kind
from ..prepare.buckets import until
from ..prepare.spill import passes
from ..sources.discover import SourceFile
from ..sources.event_files import footer, reading

_SESSION = ("session_id", "occurrence")


@dataclass(frozen=True, slots=True)
class UnfollowedEvents:
    """Numbers of events without a live risk by a chain, and of the sessions that have one."""

    events_without_risk: int
    sessions_without_risk: int


def names_chains(parts: Sequence[SourceFile]) -> bool:
    """Return whether a file states which chain followed its events."""
    return any(CHAIN_COLUMN in footer(part).schema.columns for part in parts)


def unfollowed_events(parts: Sequence[SourceFile], chain: str, as_of: int | None) -> UnfollowedEvents:
    """Return the events up to `as_of` that the chain with this digest did not follow, repeats too.

    Of sessions only hashes are in memory. A file without the column is of rules in force that named no chain.
    Raises SourceError with the name of a damaged file.
    """
    events, sessions = 0, pl.Series(dtype=pl.UInt64)
    for one_pass in passes(parts, {CHAIN_COLUMN: pl.String()}):
        is_event, is_followed = pl.col("kind") != Kind.END.value, pl.col(CHAIN_COLUMN).eq_missing(chain)
        rows = until(one_pass.frame, as_of).filter(is_event & ~is_followed).select(_SESSION)
        with reading(one_pass.parts):
            found = rows.collect(engine="streaming")
        events += len(found)
        sessions = pl.concat([sessions, found.hash_rows().unique()]).unique()
    return UnfollowedEvents(events, len(sessions))


def events_by_chain(parts: Sequence[SourceFile], as_of: int | None) -> dict[str | None, int]:
    """Return the events up to `as_of` by the digest of the chain that followed them live, repeats too.

    None stands for no chain. Nothing is read where no file names one. Raises SourceError with the name of a
    damaged file.
    """
    found: dict[str | None, int] = {}
    for one_pass in passes(parts, {CHAIN_COLUMN: pl.String()}) if names_chains(parts) else ():
        events = until(one_pass.frame, as_of).filter(pl.col("kind") != Kind.END.value)
        with reading(one_pass.parts):
            rows = events.group_by(CHAIN_COLUMN).len().collect(engine="streaming").rows()
        for chain, count in rows:
            found[chain] = found.get(chain, 0) + count
    return found
