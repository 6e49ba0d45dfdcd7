"""The manifest of an archive: its files, the sources that were imported, and how far each live one is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from ..schemas.instrumentations.census import SpanCensus, census_of
from ..schemas.time import parse_time
from .chunk import ArchiveCheckpoint
from .disk import disk_errors, sync_path
from .error import SourceError

MANIFEST = "manifest.jsonl"
"""The manifest's name: a JSON object per line, in the order of writing."""
RULE_SETS = "rules"
"""The folder of the rule sets that judged a live archive's events."""
TOMBSTONES = "tombstones.jsonl"
"""The file beside the manifest that has the signed statements on erased rows."""
LOCK = ".lock"
"""The file that a process locks while it changes the manifest of a live archive."""
RULE_SET_START = b'{"packs":'
"""The first bytes of a rule set's file."""


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """The source of archived events: its name, and the digest of its content or the id of a live source.

    `timezone` is the zone in which a chat log was read. `partition` is the Kafka partition, 0 elsewhere.
    """

    name: str
    sha256: str
    timezone: str = "UTC"
    partition: int = 0


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file of an archive.

    `file` is its path from the archive's folder; `first_time` and `last_time` are those of its rows;
    `offsets` are the first and last place in the source (conversations of a chat log from 0) that it covers.
    """

    file: str
    sha256: str
    bytes: int
    rows: int
    events: int
    first_time: str
    last_time: str
    offsets: tuple[int, int]
    source: ManifestSource


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a manifest: the files that were written, and the sources that were imported whole.

    `watermarks` are those of live sources, in nanoseconds since the epoch: the archive contains everything
    that a source judged up to there. `unfinished` are names of files of a range that may be incomplete.
    `spans` are those of imported dumps, including dumps without a readable span. `marks` are all watermarks
    of each source in their order, each with the number of entries before it.
    """

    entries: tuple[ManifestEntry, ...] = ()
    finished: tuple[ManifestSource, ...] = ()
    watermarks: Mapping[ManifestSource, int] = field(default_factory=dict[ManifestSource, int])
    unfinished: frozenset[str] = frozenset()
    spans: Mapping[ManifestSource, SpanCensus] = field(default_factory=dict[ManifestSource, SpanCensus])
    marks: Mapping[ManifestSource, Sequence[tuple[int, int]]] = field(
        default_factory=dict[ManifestSource, Sequence[tuple[int, int]]]
    )

    def listed_until(self, time: int) -> Iterator[ManifestEntry]:
        """Yield the entries of live sources that were listed before their source stated that time."""
        stated = {
            source: next((listed for watermark, listed in marks if watermark >= time), 0)
            for source, marks in self.marks.items()
        }
        for number, entry in enumerate(self.entries):
            if number < stated.get(entry.source, 0):
                yield entry


@dataclass(frozen=True, slots=True)
class RowErasure:
    """The new entry of a file from which rows were erased, the digest that it had, and their number."""

    before: str
    entry: ManifestEntry
    removed: int


@dataclass(frozen=True, slots=True)
class SessionErased:
    """The files from which a session was erased."""

    files: tuple[RowErasure, ...]


@dataclass(frozen=True, slots=True)
class RangeStarted:
    """A live source's range of offsets whose files are being written."""

    source: ManifestSource
    offsets: tuple[int, int]


@dataclass(frozen=True, slots=True)
class CheckpointReached:
    """A live source's progress: its checkpoint, and the event time if that is known."""

    source: ManifestSource
    checkpoint: ArchiveCheckpoint
    watermark: int | None


@dataclass(frozen=True, slots=True)
class SourceFinished:
    """A source that was imported whole; a combined source lists its `members`."""

    source: ManifestSource
    members: tuple[ManifestSource, ...] = ()


@dataclass(frozen=True, slots=True)
class SpansCounted:
    """The spans of an imported dump; the last line of a dump counts."""

    source: ManifestSource
    spans: SpanCensus


ManifestLine = (
    ManifestEntry
    | SourceFinished
    | tuple[ManifestSource, int]
    | RangeStarted
    | CheckpointReached
    | SpansCounted
    | SessionErased
)
"""A line of a manifest: a file, rows erased from one, a source imported whole, its spans, or progress."""


def read_manifest(root: Path) -> Manifest:
    """Return the manifest of an archive, empty if the folder has none.

    A last line without its line break is ignored: a crash cut it off, and its file is written again. Raises
    SourceError if another line cannot be read.
    """
    try:
        data = (root / MANIFEST).read_bytes()
    except FileNotFoundError:
        return Manifest()
    entries: dict[str, ManifestEntry] = {}
    finished: list[ManifestSource] = []
    watermarks: dict[ManifestSource, int] = {}
    unfinished: dict[ManifestSource, str] = {}
    spans: dict[ManifestSource, SpanCensus] = {}
    marks: dict[ManifestSource, list[tuple[int, int]]] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        match parse_line(line, f"{root / MANIFEST}:{number}"):
            case ManifestEntry() as entry:
                entries[entry.file] = entry
            case SessionErased(files):
                entries |= {each.entry.file: each.entry for each in files}
            case SourceFinished(source, members):
                unfinished.pop(source, None)
                finished += [source, *members]
            case RangeStarted(source, offsets):
                unfinished[source] = file_name(source, offsets)
            case CheckpointReached(source, _, watermark):
                unfinished.pop(source, None)
                if watermark is not None:
                    watermarks[source] = watermark
                    marks.setdefault(source, []).append((watermark, len(entries)))
            case SpansCounted(source, census):
                spans[source] = census
            case source, watermark:
                watermarks[source] = watermark
                marks.setdefault(source, []).append((watermark, len(entries)))
    listed, incomplete = tuple(entries.values()), frozenset(unfinished.values())
    return Manifest(listed, tuple(finished), watermarks, incomplete, spans, marks)


def parse_line(line: bytes, where: str) -> ManifestLine:
    """Parse a line of a manifest. Raises SourceError (TRL403) if it is not one."""
    try:
        fields = cast("dict[str, Any]", orjson.loads(line))
        if "finished" in fields:
            members = tuple(ManifestSource(**member) for member in fields.get("sources", ()))
            return SourceFinished(ManifestSource(**fields["finished"]), members)
        if "erased" in fields:
            return SessionErased(tuple(map(_erasure, fields["erased"])))
        source = ManifestSource(**fields["source"])
        if "archived" in fields:
            watermark = None if fields["watermark"] is None else _time(fields["watermark"])
            return CheckpointReached(source, _checkpoint(fields["archived"]), watermark)
        if "watermark" in fields:
            return source, _time(fields["watermark"])
        if "spans" in fields:
            return SpansCounted(source, census_of(fields["spans"]))
        if "archiving" in fields:
            return RangeStarted(source, _pair(fields["archiving"]))
        return _listed(fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        hint = "restore the manifest, or delete the archive and import again"
        raise SourceError("TRL403", where, "is not a line of a manifest", hint) from None


def erased_line(files: Sequence[RowErasure]) -> dict[str, Any]:
    """Return the line of a manifest on an erased session: a single one, so that a crash leaves no half."""
    return {"erased": [asdict(each) for each in files]}


def _erasure(fields: dict[str, Any]) -> RowErasure:
    return RowErasure(fields["before"], _listed(fields["entry"]), int(fields["removed"]))


def _listed(fields: dict[str, Any]) -> ManifestEntry:
    source = ManifestSource(**fields["source"])
    typed: dict[str, Any] = {"offsets": _pair(fields["offsets"]), "source": source}
    return ManifestEntry(**(fields | typed))


def _time(text: Any) -> int:
    ns = parse_time(text)
    if ns is None:
        raise ValueError("no time")
    return ns


def _pair(value: Any) -> tuple[int, int]:
    first, last = value
    return int(first), int(last)


def _checkpoint(fields: Any) -> ArchiveCheckpoint:
    mark = None if fields["mark"] is None else _pair(fields["mark"])
    return ArchiveCheckpoint(int(fields["next"]), int(fields["first"]), mark)


def open_manifest(root: Path) -> BinaryIO:
    """Open the manifest for appending, without a last line that a crash cut off."""
    root.mkdir(parents=True, exist_ok=True)
    file = (root / MANIFEST).open("ab+")
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
    sync_path(root)
    return file


def append_lines(manifest: BinaryIO, lines: Iterable[Mapping[str, Any]], *, sync: bool) -> None:
    """Append lines to an open manifest; with `sync` they are on disk when this returns.

    Raises SourceError (TRL409) if the disk rejects them.
    """
    text = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    with disk_errors(Path(manifest.name)):
        manifest.write(text)
        manifest.flush()
        if sync:
            os.fsync(manifest.fileno())


def file_name(source: ManifestSource, offsets: tuple[int, int]) -> str:
    """Return the name of a file: source, partition, offsets. The digest distinguishes sources of one name."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in source.name)
    return f"{plain[:80]}-{source.sha256[:12]}-{source.partition}-{offsets[0]:012d}-{offsets[1]:012d}.parquet"
