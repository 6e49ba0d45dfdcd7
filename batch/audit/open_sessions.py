"""The sessions that are not closed when an archive ends, and the input files that have their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from ...rules.engine.judge import Judged
from ...rules.engine.sessions import numbers
from ...schemas.time import rfc3339
from ..evidence.bundle import SCRATCH
from ..evidence.canonical_json import canonical_line
from ..evidence.sorted_lines import SortedLines
from ..prepare.buckets import until
from ..prepare.spill import Pass, passes
from ..sources.discover import FileFormat, SourceFile
from ..sources.event_files import changed, may_have_occurrence, reading
from .row_order import RowOrder

OPEN_SESSIONS = "open.jsonl"
_KEY = ("session_id", "occurrence")
_PATH = "path of the file"
"""A column that no file has."""


OpenedIn = tuple[pl.DataFrame, Sequence[SourceFile]]
"""Open sessions by id and occurrence, and the files to look into for their rows."""


class OpenPlace(NamedTuple):
    """A file that has rows of an open session; the sort key of the lines."""

    session_id: str
    occurrence: str
    file: str


def open_sessions(judged: Judged) -> pl.DataFrame:
    """Return the id and the occurrence of the sessions of a bucket that are open."""
    begins = judged.sessions.bounds[:-1][judged.sessions.open]
    return pl.DataFrame({name: judged.column(name, begins) for name in _KEY})


def open_in_order(passes_read: Sequence[Pass], found: RowOrder, as_of: int | None) -> OpenedIn:
    """Return the open sessions among those whose rows are in order, and the files that may have their rows.

    Only the passes that have rows of them are read.
    """
    is_open = found.open & ~found.disordered
    frames: list[pl.DataFrame] = []
    files: list[SourceFile] = []
    for number, one_pass in enumerate(passes_read if is_open.any() else ()):
        occurrences = found.occurrences(number)
        rows = np.flatnonzero((occurrences >= 0) & is_open[occurrences])
        if not len(rows):
            continue
        files += one_pass.parts
        with reading(one_pass.parts):
            events = until(one_pass.frame.select(*_KEY, "time"), as_of).collect(engine="streaming")
        if len(events) != len(occurrences):
            raise changed(one_pass.parts[0])
        frames.append(events.select(_KEY)[rows].unique())
    return pl.concat(frames).unique() if frames else pl.DataFrame(), list(dict.fromkeys(files))


def write_open(
    path: Path,
    found: Iterable[OpenedIn],
    inputs: Sequence[SourceFile],
    as_of: int | None,
) -> None:
    """Write the open sessions with the inputs that have their rows; `found` names the files to look into.

    A file of chat logs is not looked into, because its sessions are closed. The events of span dumps and of
    unordered rows come from files that stage (b) has merged: of these inputs, each dump may have some of the
    rows, and so may each file with a row of the same session id.
    """
    places = SortedLines(path.parent / SCRATCH / "open", OpenPlace)
    for sessions, files in found:
        if len(sessions):
            for place in _places(sessions, files, inputs, as_of):
                places.add(place, b"\n")
    with path.open("wb") as out:
        for (session_id, occurrence), group in groupby(places.merged(), key=lambda found: found[0][:2]):
            names = sorted({place.file for place, _ in group})
            line = {"session_id": session_id, "occurrence": occurrence, "files": names}
            out.write(canonical_line(line))


def _places(
    sessions: pl.DataFrame, files: Sequence[SourceFile], inputs: Sequence[SourceFile], as_of: int | None
) -> Iterator[OpenPlace]:
    """Yield the inputs that have rows of open sessions."""
    known, audited = set(inputs), set(files)
    occurrences = numbers(sessions["occurrence"])
    first, last = int(occurrences.min()), int(occurrences.max())
    near = [part for part in files if part in known and may_have_occurrence(part, first, last)]
    yield from _in_files(near, sessions, _KEY, as_of)
    if all(part in known or part.name.startswith("chat-") for part in files):
        return
    rest = [part for part in inputs if part not in audited]
    unordered = [part for part in rest if part.format is FileFormat.PARQUET]
    yield from _in_files(unordered, sessions, ("session_id",), as_of)
    for part in rest:
        if part.format is FileFormat.SPANS:
            yield from (OpenPlace(*key, part.name) for key in _keys(sessions))


def _in_files(
    parts: Sequence[SourceFile], sessions: pl.DataFrame, on: Sequence[str], as_of: int | None
) -> Iterator[OpenPlace]:
    """Yield the files that have a row of a session with equal columns `on`, a pass of files at a time."""
    names = {str(part.path): part.name for part in parts}
    for one_pass in passes(parts):
        rows = until(one_pass.frame_with_paths(_PATH).select(*_KEY, "time", _PATH), as_of)
        with reading(one_pass.parts):
            places = rows.select(*on, _PATH).join(sessions.lazy(), on=on, how="semi").unique()
            found = places.collect(engine="streaming").join(sessions, on=on, how="inner")
        for key, path in zip(_keys(found), found[_PATH].to_list(), strict=True):
            yield OpenPlace(*key, names[path])


def _keys(sessions: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the ids and occurrences of sessions as texts."""
    times = sessions["occurrence"].to_physical().to_list()
    for session_id, time in zip(sessions["session_id"].to_list(), times, strict=True):
        yield session_id, rfc3339(time)
