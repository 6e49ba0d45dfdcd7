"""`tracline import`: chat logs into an archive, each source once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from ..schemas.chat import END_CONVERSATION
from ..schemas.event import Kind
from .archive import Entry, Manifest, Origin, digest_of, finish, read_manifest, write_events
from .chatframe import Met, chat_batches
from .error import SourceError
from .read import Format, Part, Population, Reject, discover


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: what it read, the files that it wrote, the sources that it had imported before."""

    population: Population
    written: list[Entry] = field(default_factory=list[Entry])
    known: list[str] = field(default_factory=list[str])


def import_chats(
    source: str | Path, out: Path, timezone: str = "UTC", tell: Callable[[str], None] | None = None
) -> Imported:
    """Read the chat logs of a source and write their events into the archive at `out`.

    `timezone` (an IANA name) is that of times without an offset. A source file that was imported whole,
    told by its content, is not read again; one of which something was rejected is, and one whose import was
    cut off is finished. A conversation that the archive has from another source is a duplicate. `tell`
    hears the name of each file when its turn comes. Raises SourceError for a source or a time zone that is
    not there, for a source that was imported with another time zone, and OSError.
    """
    zone = zone_of(timezone)
    imported = Imported(Population())
    parts = _chats(source, out, imported.population)
    origins = [Origin(part.name, digest_of(part.path), timezone) for part in parts]
    manifest = read_manifest(out)
    new = {origin.sha256 for origin in origins if not _is_known(origin, manifest)}
    met = _met(out, manifest, without=new)
    for part, origin in zip(parts, origins, strict=True):
        if origin.sha256 not in new:
            imported.known.append(part.name)
            continue
        if tell is not None:
            tell(part.name)
        rejected = imported.population.rejected.total()
        for batch in chat_batches(part, imported.population, met, zone):
            offsets = (batch.first, batch.last)
            imported.written.extend(write_events(out, batch.events, origin, offsets))
        if imported.population.rejected.total() == rejected:
            finish(out, origin)
    return imported


def zone_of(name: str) -> ZoneInfo:
    """The time zone of an IANA name. Raises SourceError where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "use a name of the IANA data base, such as UTC, Europe/Berlin or America/New_York"
        raise SourceError("TRL405", "--timezone", "there is no time zone of that name", hint) from None


def _chats(source: str | Path, out: Path, population: Population) -> list[Part]:
    """The chat logs of a source, which must not be the archive itself."""
    target, root = out.resolve(), Path(source).resolve()
    if target == root or root in target.parents:
        hint = "name an --out that is not inside the source"
        raise SourceError("TRL401", str(out), "lies inside the source that is to be imported", hint)
    chats: list[Part] = []
    for part in discover(source, population):
        if part.format is Format.CHAT:
            chats.append(part)
        else:
            text = "is event Parquet already, which audit reads as it is"
            population.reject(Reject(part.name, "whole file", "source-kind", text))
    return chats


def _is_known(origin: Origin, manifest: Manifest) -> bool:
    """Whether the archive has this content whole. Raises SourceError where another time zone read it."""
    for other in (*manifest.finished, *(entry.source for entry in manifest.entries)):
        if other.sha256 == origin.sha256 and other.timezone != origin.timezone:
            hint = f"use --timezone {other.timezone}, or import into another archive"
            what = f"was imported with --timezone {other.timezone} before"
            raise SourceError("TRL404", origin.name, what, hint)
    return any(other.sha256 == origin.sha256 for other in manifest.finished)


def _met(out: Path, manifest: Manifest, without: set[str]) -> Met:
    """The conversations that the archive has from other sources than these, by their `end` rows."""
    met = Met()
    for entry in manifest.entries:
        if entry.source.sha256 in without:
            continue
        ends: Any = (
            pl.scan_parquet(out / entry.file, hive_partitioning=False)
            .filter(pl.col("kind") == Kind.END)
            .select(
                "session_id",
                pl.col("occurrence").to_physical(),
                pl.col("attributes").map.get(END_CONVERSATION).alias("digest"),
            )
            .filter(pl.col("digest").is_not_null())
            .collect()
            .iter_rows()
        )
        for session_id, occurrence, digest in ends:
            met.add(session_id, occurrence, digest)
    return met
