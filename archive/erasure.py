"""Erasing a session from an archive: its rows go, and the manifest records that they went."""

from __future__ import annotations

import fcntl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from .disk import digest_of, disk_errors, sync_path
from .error import SourceError
from .manifest import (
    LOCK,
    MANIFEST,
    ManifestEntry,
    RowErasure,
    append_lines,
    erased_line,
    open_manifest,
    read_manifest,
)
from .writer import entry_of, write_rows

_TEMPORARY = ".erasing-"


@contextmanager
def erasing(root: Path, session_id: str) -> Generator[Sequence[RowErasure]]:
    """Write the archive's files without the rows of a session, and put them in place at the end.

    An exception inside leaves the archive as it is. Raises SourceError: TRL465 if the folder is no archive or
    a file is still being written, TRL410 if no file has a row of the session.
    """
    if not (root / MANIFEST).is_file():
        hint = "choose the folder of an archive of `tracline import`, `serve` or `stream archive`"
        raise _refused(root, "has no manifest", hint)
    with (root / LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _finish(root)
        erasures = list[RowErasure]()
        try:
            manifest = read_manifest(root)
            for entry in manifest.entries:
                erased = _without(root, entry, session_id)
                if erased is None:
                    continue
                erasures.append(erased)
                if Path(entry.file).name in manifest.unfinished:
                    raise _refused(root, f"still writes {entry.file}", "wait until the archiver has done so")
            if not erasures:
                hint = "`tracline show ARCHIVE` lists the sessions"
                raise SourceError("TRL410", str(root), "has no row of this session", hint)
            yield tuple(erasures)
            committed, erasures = erasures, []
            _commit(root, committed)
        finally:
            for erased in erasures:
                _temporary(root, erased.entry.file).unlink(missing_ok=True)


def _without(root: Path, entry: ManifestEntry, session_id: str) -> RowErasure | None:
    """Write a file without the rows of a session under a temporary name, None if it has no such row."""
    path = root / entry.file
    if not path.is_file():
        raise _refused(root, f"lists {entry.file}, which does not exist", "restore the file")
    is_erased = pl.col("session_id").eq_missing(pl.lit(session_id))
    rows = pl.scan_parquet(path, hive_partitioning=False)
    try:
        count: Any = rows.select(is_erased.sum()).collect().item()
        if not count:
            return None
        rest = rows.filter(~is_erased).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise _refused(
            root, f"lists {entry.file}, which cannot be read as Parquet", "restore the file"
        ) from None
    temporary = _temporary(root, entry.file)
    with disk_errors(temporary):
        write_rows(temporary, rest)
    written = entry_of(temporary, entry.file, rest, entry.source, entry.offsets, entry)
    return RowErasure(entry.sha256, written, count)


def _refused(root: Path, what: str, hint: str) -> SourceError:
    return SourceError("TRL465", str(root), what, hint)


def _temporary(root: Path, file: str) -> Path:
    path = root / file
    return path.with_name(_TEMPORARY + path.name)


def _commit(root: Path, erasures: Sequence[RowErasure]) -> None:
    """Enter the new files into the manifest, and then put them in the place of the old ones.

    Between the two steps the sizes of files contradict the manifest, so that no reader takes the old ones;
    the next erasure finishes what a crash interrupted.
    """
    with open_manifest(root) as manifest:
        append_lines(manifest, [erased_line(erasures)], sync=True)
    for each in erasures:
        _replace(root, each.entry)


def _replace(root: Path, entry: ManifestEntry) -> None:
    path = root / entry.file
    with disk_errors(path):
        _temporary(root, entry.file).replace(path)
        sync_path(path.parent)


def _finish(root: Path) -> None:
    """Put the files in place that an interrupted erasure entered into the manifest; remove all others."""
    for entry in read_manifest(root).entries:
        temporary = _temporary(root, entry.file)
        if not temporary.is_file():
            continue
        if digest_of(temporary) == entry.sha256:
            _replace(root, entry)
        else:
            temporary.unlink()
