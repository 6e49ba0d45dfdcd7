"""The archive: event Parquet by day, each file written whole, synced, renamed, and entered in a manifest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
import polars as pl

from ..schemas.event import Kind
from ..schemas.instrumentations.census import SpanCensus, census_of
from ..schemas.time import parse_time, rfc3339
from .chunk import ArchiveCheckpoint
from .error import SourceError

MANIFEST = "manifest.jsonl"
"""The manifest's name: one JSON object a line, a line a file, in the order in which they were finished."""
RULE_SETS = "rules"
"""The name of the folder that holds the rule sets by which a live archive's events were judged."""
RULE_SET_START = b'{"packs":'
"""How the file of a rule set begins."""
RULES_COLUMN = "rules"
"""The column of a live archive that says by which rule set an event was judged: the set's digest."""
UNKNOWN_DAY = "unknown"
ROW_GROUP_ROWS = 100_000
_TEMPORARY = ".writing-"


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """Where events came from: the source's name, and the digest of its content or the id of a live one.

    `timezone` is how a chat log was read; `partition` is the Kafka partition, 0 elsewhere.
    """

    name: str
    sha256: str
    timezone: str = "UTC"
    partition: int = 0


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file of an archive, as its manifest has it.

    `file` is the path from the archive's folder; `first_time` and `last_time` are those of its rows;
    `offsets` the first and last place in the source (conversations of a chat log from 0) that it covers.
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


def day_of(time: pl.Expr) -> pl.Expr:
    """The day (UTC) of an event time, as the archive's folders name it: `2026-02-17`, or `unknown`.

    Conversations without times get synthetic ones from the epoch on, so a day of 1970 is none.
    """
    day = time.dt.strftime("%Y-%m-%d")
    return pl.when(time.dt.year() == 1970).then(pl.lit(UNKNOWN_DAY)).otherwise(day)


@dataclass(frozen=True, slots=True)
class Manifest:
    """An archive's manifest: the files that were written, and the sources that were imported whole.

    `watermarks` are those of live sources, in nanoseconds since the epoch: what a source has judged up to
    there is in the archive. `writing` are names of files of which not all of one range may be entered.
    `spans` are those of imported dumps, also of dumps without a span that is read.
    """

    entries: tuple[ManifestEntry, ...] = ()
    finished: tuple[ManifestSource, ...] = ()
    watermarks: Mapping[ManifestSource, int] = field(default_factory=dict[ManifestSource, int])
    writing: frozenset[str] = frozenset()
    spans: Mapping[ManifestSource, SpanCensus] = field(default_factory=dict[ManifestSource, SpanCensus])


@dataclass(frozen=True, slots=True)
class RangeStarted:
    """A live source's range of offsets of which files are being written."""

    source: ManifestSource
    offsets: tuple[int, int]


@dataclass(frozen=True, slots=True)
class CheckpointReached:
    """How far a live source is in the archive, by offsets, and by event time where that is known."""

    source: ManifestSource
    standing: ArchiveCheckpoint
    watermark: int | None


@dataclass(frozen=True, slots=True)
class SourceFinished:
    """A source that was imported whole; where it stands for several (`combined`), they are its `members`."""

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
)
"""A line of a manifest: a file, a source that was imported whole, its spans, or how far a live one is."""


def read_manifest(root: Path) -> Manifest:
    """The manifest of an archive, empty where the folder has none.

    A last line that a crash cut off is not there: its file will be written again. Raises SourceError where
    another line cannot be read.
    """
    try:
        data = (root / MANIFEST).read_bytes()
    except FileNotFoundError:
        return Manifest()
    entries: list[ManifestEntry] = []
    finished: list[ManifestSource] = []
    watermarks: dict[ManifestSource, int] = {}
    writing: dict[ManifestSource, str] = {}
    spans: dict[ManifestSource, SpanCensus] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        match read_line(line, f"{root / MANIFEST}:{number}"):
            case ManifestEntry() as entry:
                entries.append(entry)
            case SourceFinished(origin, members):
                writing.pop(origin, None)
                finished += [origin, *members]
            case RangeStarted(origin, offsets):
                writing[origin] = _file_name(origin, offsets)
            case CheckpointReached(origin, _, watermark):
                writing.pop(origin, None)
                if watermark is not None:
                    watermarks[origin] = watermark
            case SpansCounted(origin, census):
                spans[origin] = census
            case origin, watermark:
                watermarks[origin] = watermark
    return Manifest(tuple(entries), tuple(finished), watermarks, frozenset(writing.values()), spans)


@dataclass(slots=True)
class ArchiveWriter:
    """An archive that one process is adding to, its manifest in memory. `writing` makes one."""

    root: Path
    manifest: Manifest
    _known: set[str]
    _file: BinaryIO | None = None

    def write(
        self, events: pl.DataFrame, origin: ManifestSource, offsets: tuple[int, int]
    ) -> list[ManifestEntry]:
        """Write judged events (or candidates) into the archive, a file for each of their days.

        A file that the manifest has already is left as it is, so writing the same again changes nothing.
        Rows stand by occurrence, session and place. Returns the entries of the files that were written:
        each was written, synced and renamed before it was entered, so a crash leaves no entry without file.
        """
        entries = write_files(self.root, events, origin, offsets, self._known)
        self._enter(*map(asdict, entries), sync=bool(entries))
        self._known.update(entry.file for entry in entries)
        return entries

    def write_combined(self, events: pl.DataFrame, members: Sequence[ManifestSource]) -> list[ManifestEntry]:
        """Write all events of small sources into the same files, and enter that the sources are whole.

        The files are entered with the source that stands for all (`combined`), in which a member's offset is
        its place. The first of the lines says that not all may be there, the last one that they are: where a
        crash cuts them off, readers take none of the files and the next import reads the members again.
        """
        source, offsets = combined(members), (0, len(members) - 1)
        entries = write_files(self.root, events, source, offsets, self._known)
        begun = {"archiving": offsets, "source": asdict(source)}
        whole = {"finished": asdict(source), "sources": [asdict(member) for member in members]}
        self._enter(begun, *map(asdict, entries), whole, sync=True)
        self._known.update(entry.file for entry in entries)
        return entries

    def finish(self, origin: ManifestSource) -> None:
        """Enter that a source is in the archive whole, so that it is not read again.

        A crash may forget it; then the source is read again and nothing of it is written twice.
        """
        self._enter({"finished": asdict(origin)}, sync=False)

    def count(self, origin: ManifestSource, spans: SpanCensus) -> None:
        """Enter how many spans a dump holds, unless the manifest says so already."""
        if self.manifest.spans.get(origin) != spans:
            self._enter({"spans": spans.as_json(), "source": asdict(origin)}, sync=False)

    def mark(self, origin: ManifestSource, watermark: int) -> None:
        """Enter that all that a live source has judged up to its watermark (ns since the epoch) was written.

        A crash may forget it, and never keeps it without the files that were entered before.
        """
        self._enter({"watermark": rfc3339(watermark), "source": asdict(origin)}, sync=False)

    def close(self) -> None:
        """Sync what was entered. Raises SourceError (TRL409) where the disk does not take it."""
        if self._file is not None:
            try:
                enter(self._file, (), sync=True)
            finally:
                # Closing tries once more to write what the disk did not take.
                with suppress(OSError):
                    self._file.close()

    def _enter(self, *lines: dict[str, Any], sync: bool) -> None:
        if self._file is None:
            self._file = _open_manifest(self.root)
        enter(self._file, lines, sync=sync)


def combined(members: Sequence[ManifestSource]) -> ManifestSource:
    """Return the source that stands for several: the digest of their digests, in their order."""
    digest = hashlib.sha256("".join(member.sha256 for member in members).encode()).hexdigest()
    name = f"{members[0].name} and {len(members) - 1} more"
    return ManifestSource(name, digest, members[0].timezone)


@contextmanager
def writing(root: Path) -> Generator[ArchiveWriter]:
    """Add to the archive at `root`, which is made where it is not there.

    Raises SourceError (TRL403) where its manifest cannot be read.
    """
    manifest = read_manifest(root)
    writer = ArchiveWriter(root, manifest, {entry.file for entry in manifest.entries})
    try:
        yield writer
    finally:
        writer.close()


def write_files(
    root: Path, events: pl.DataFrame, origin: ManifestSource, offsets: tuple[int, int], known: Container[str]
) -> list[ManifestEntry]:
    """Write events, a file for each of their days but for those that are `known`; gives what to enter.

    Raises SourceError (TRL409) where the disk does not take one.
    """
    days = events.with_columns(day_of(pl.col("time")).alias("day")).sort(
        "day", "occurrence", "session_id", "seq"
    )
    entries: list[ManifestEntry] = []
    try:
        for (day,), rows in days.group_by("day", maintain_order=True):
            file = f"day={day}/{_file_name(origin, offsets)}"
            if file not in known:
                entries.append(_write(root, file, rows.drop("day"), origin, offsets))
        for folder in {(root / entry.file).parent for entry in entries}:
            sync_path(folder)
    except BaseException:
        # No manifest lists them: a reader would name them as cut off for as long as they are there.
        for entry in entries:
            (root / entry.file).unlink(missing_ok=True)
        raise
    return entries


def _write(
    root: Path, file: str, rows: pl.DataFrame, origin: ManifestSource, offsets: tuple[int, int]
) -> ManifestEntry:
    """Write a file whole and sync it; its folder is not synced yet."""
    path = root / file
    temporary = path.with_name(_TEMPORARY + path.name)
    try:
        with disk_errors(path):
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True)
                sync_path(root)
            try:
                rows.write_parquet(temporary, compression="zstd", row_group_size=ROW_GROUP_ROWS)
            except pl.exceptions.PolarsError:
                # Polars calls a file on a full disk out of specification.
                raise OSError from None
            sync_path(temporary)
            entry = _entry(temporary, file, rows, origin, offsets)
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return entry


def _entry(
    written: Path, file: str, rows: pl.DataFrame, origin: ManifestSource, offsets: tuple[int, int]
) -> ManifestEntry:
    """Return the entry of a file that was written under another name."""
    times: Any = rows.select(
        pl.col("time").min().to_physical(), pl.col("time").max().to_physical().alias("max")
    )
    first, last = times.row(0)
    return ManifestEntry(
        file=file,
        sha256=digest_of(written),
        bytes=written.stat().st_size,
        rows=rows.height,
        events=rows.filter(pl.col("kind") != Kind.END).height,
        first_time=rfc3339(first),
        last_time=rfc3339(last),
        offsets=offsets,
        source=origin,
    )


def _open_manifest(root: Path) -> BinaryIO:
    """The manifest, to be added to; a line that a crash cut off is taken away."""
    root.mkdir(parents=True, exist_ok=True)
    file = (root / MANIFEST).open("ab+")
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
    sync_path(root)
    return file


def enter(manifest: BinaryIO, lines: Iterable[Mapping[str, Any]], *, sync: bool) -> None:
    """Add lines to a manifest that is open; with `sync` they are on disk when it returns.

    Raises SourceError (TRL409) where the disk does not take them.
    """
    text = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    with disk_errors(Path(manifest.name)):
        manifest.write(text)
        manifest.flush()
        if sync:
            os.fsync(manifest.fileno())


def read_line(line: bytes, where: str) -> ManifestLine:
    """A line of a manifest. Raises SourceError (TRL403) where it is none."""
    try:
        told = cast("dict[str, Any]", orjson.loads(line))
        if "finished" in told:
            members = tuple(ManifestSource(**member) for member in told.get("sources", ()))
            return SourceFinished(ManifestSource(**told["finished"]), members)
        source = ManifestSource(**told["source"])
        if "archived" in told:
            watermark = None if told["watermark"] is None else _time(told["watermark"])
            return CheckpointReached(source, _standing(told["archived"]), watermark)
        if "watermark" in told:
            return source, _time(told["watermark"])
        if "spans" in told:
            return SpansCounted(source, census_of(told["spans"]))
        if "archiving" in told:
            return RangeStarted(source, _pair(told["archiving"]))
        typed: dict[str, Any] = {"offsets": _pair(told["offsets"]), "source": source}
        return ManifestEntry(**(told | typed))
    except (ValueError, TypeError, KeyError, AttributeError):
        hint = "restore the manifest, or delete the archive and import again"
        raise SourceError("TRL403", where, "is no line of a manifest", hint) from None


def _time(text: Any) -> int:
    ns = parse_time(text)
    if ns is None:
        raise ValueError("no time")
    return ns


def _pair(told: Any) -> tuple[int, int]:
    first, last = told
    return int(first), int(last)


def _standing(told: Any) -> ArchiveCheckpoint:
    return ArchiveCheckpoint(
        int(told["next"]), int(told["first"]), None if told["mark"] is None else _pair(told["mark"])
    )


def _file_name(origin: ManifestSource, offsets: tuple[int, int]) -> str:
    """By source, partition and offset range. The digest tells sources of one name apart."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in origin.name)
    return f"{plain[:80]}-{origin.sha256[:12]}-{origin.partition}-{offsets[0]:012d}-{offsets[1]:012d}.parquet"


def digest_of(path: Path) -> str:
    """The SHA-256 of a file's content, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def disk_errors(path: Path) -> Generator[None]:
    """Raise SourceError (TRL409), which names the file, where the disk does not take what is written."""
    try:
        yield
    except OSError as error:
        # The system names no file where a write fails.
        reason = f": {error.strerror.lower()}" if error.strerror else ""
        hint = "see that the disk has room and takes writes, and start again: nothing is lost"
        raise SourceError("TRL409", str(path), f"cannot be written{reason}", hint) from None


def sync_path(path: Path) -> None:
    """Have a file, or the names in a folder, on disk when it returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
