"""The rows of a single session of an archive, copied into a small archive."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from ...archive.manifest import RULE_SETS
from ...archive.writer import RULES_COLUMN
from ...schemas.event import Kind
from ...schemas.frames.events import EVENT_SCHEMA
from ...schemas.time import NS
from ..nights.closings import before_silences, closings
from ..prepare.buckets import until
from ..prepare.options import AuditOptions
from ..prepare.prepare import is_ready, prepare
from ..prepare.spill import passes
from ..sources.discover import Population, SourceFile, discover
from ..sources.event_files import footer, may_have_occurrence, reading
from ..sources.file_format import FileFormat

_PATH = "path of the file"
"""A column that no file has."""
_SCHEMA = {**EVENT_SCHEMA, RULES_COLUMN: pl.String(), _PATH: pl.String()}


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The id of a session, and the time at which the occurrence began; None for all occurrences."""

    session_id: str
    occurrence: int | None


@dataclass(frozen=True, slots=True)
class SessionExtract:
    """An archive with the rows of one session, the names of the files that had them, and their number.

    `options` are those of an audit that judges them as one of the whole archive does.
    """

    archive: Path
    files: tuple[str, ...]
    rows: int
    options: AuditOptions


def extract_session(
    archive: Sequence[str], place: SessionKey, scratch: Path, options: AuditOptions, *, as_judged: bool
) -> SessionExtract:
    """Copy the rows of a session from the files that can have them; `scratch` is an empty folder.

    Of event Parquet with occurrences, other files are not read: their footers show that they lack the
    occurrence. Dumps and chat logs are read as a whole.
    """
    found = discover(tuple(archive), Population(), options.files)
    are_ready = all(part.format is FileFormat.PARQUET and is_ready(part) for part in found)
    last = _last(found) if are_ready else None
    prepared = scratch / "prepared"
    prepared.mkdir()
    parts = found if are_ready else prepare(tuple(archive), prepared, Population(), options)
    as_of = options.as_of or last or _last(parts)
    began = place.occurrence
    rows = _rows(_near(parts, began, began), place.session_id, as_of)
    if began is not None:
        time = pl.col("occurrence").to_physical()
        rows = rows.filter(time == began)
        # Only an occurrence after it can close a session that has neither an end nor been idle.
        if not as_judged and _is_open(rows, as_of - round(options.idle_s * NS)):
            later = _rows(_near(parts, began + 1, as_of), place.session_id, as_of)
            rows = pl.concat([rows, later.filter(time > began)])
    copy = scratch / "archive"
    (copy / "day").mkdir(parents=True)
    session = SourceFile(copy / "day" / "session.parquet", "session.parquet", FileFormat.PARQUET)
    if len(rows):
        if options.previous_as_of is not None and not as_judged:
            rows = _of_night(rows, session, as_of, options)
        rows.drop(_PATH).write_parquet(session.path, compression="lz4")
    for root in dict.fromkeys(part.path.parent.parent for part in parts) if as_judged else ():
        if (root / RULE_SETS).is_dir():
            shutil.copytree(root / RULE_SETS, copy / RULE_SETS, dirs_exist_ok=True)
    names = {str(part.path): part.name for part in parts}
    files = tuple(sorted(names[path] for path in rows[_PATH].unique()))
    judging = replace(options, as_of=None if as_judged else as_of, previous_as_of=None, files=None)
    return SessionExtract(copy, files if are_ready else (), len(rows), judging)


def _of_night(rows: pl.DataFrame, session: SourceFile, as_of: int, options: AuditOptions) -> pl.DataFrame:
    """Return the rows that a night judges: a silence closes a session. `session` is a file for them."""
    assert options.previous_as_of is not None, "a night begins at a time"
    rows.drop(_PATH).write_parquet(session.path)
    found = closings([session], as_of, round(options.idle_s * NS), unread_until=options.previous_as_of)
    return before_silences(rows.lazy(), found).collect()


def _last(parts: Sequence[SourceFile]) -> int:
    """Return the latest time of all rows."""
    times = [last["time"] for part in parts if "time" in (last := footer(part).last)]
    for one_pass in passes([part for part in parts if "time" not in footer(part).last]):
        with reading(one_pass.parts):
            latest = one_pass.frame.select(pl.col("time").max().to_physical()).collect()["time"]
        times += latest.drop_nulls().to_list()
    return max(times, default=0)


def _near(parts: Sequence[SourceFile], first: int | None, last: int | None) -> list[SourceFile]:
    """Return the files that may have an occurrence between two times."""
    if first is None or last is None:
        return list(parts)
    return [part for part in parts if may_have_occurrence(part, first, last)]


def _rows(parts: Sequence[SourceFile], session_id: str, as_of: int) -> pl.DataFrame:
    """Return the rows of a session, with the paths of their files."""
    found: list[pl.DataFrame] = []
    for one_pass in passes(parts, {RULES_COLUMN: pl.String()}):
        rows = until(one_pass.frame_with_paths(_PATH), as_of).filter(pl.col("session_id") == session_id)
        with reading(one_pass.parts):
            found.append(rows.select(*_SCHEMA).collect(engine="streaming"))
    return pl.concat(found) if found else pl.DataFrame(schema=_SCHEMA)


def _is_open(rows: pl.DataFrame, idle_since: int) -> bool:
    """Return whether an occurrence has no end, and an event that is not older than a time."""
    is_end = rows["kind"] == Kind.END.value
    return not is_end.any() and bool((rows["time"].to_physical() >= idle_since).any())
