"""The options of a nightly audit: its two times, and the files that it reads."""

from __future__ import annotations

from dataclasses import replace

from ...archive.error import SourceError
from ...schemas.time import NS, rfc3339
from ..prepare.options import AuditOptions
from ..prepare.prepare import is_ready
from ..sources.discover import Population, SourceFile, Sources, discover, named
from ..sources.file_format import FileFormat
from .night import files_of_night
from .previous_audit import PreviousAudit


def night_options(
    archive: Sources,
    options: AuditOptions,
    previous_as_of: int,
    previous: PreviousAudit | None = None,
    *,
    as_judged: bool = False,
) -> AuditOptions:
    """Return the options of the audit of a night, which begins where a previous one ended.

    Without `as_of` the night ends at the archive's watermark. With the `previous` audit, files that it read
    are opened again only where they have rows after its time or of a session that was open then; without it,
    all files are, and the same ones are read. As judged, only rows close sessions.

    Raises SourceError (TRL441) if the archive is not complete up to the end of the night, and TRL442 if the
    previous audit does not fit.
    """
    population = Population()
    found = discover(archive, population, files_done=None if previous is None else previous.files_done)
    options = replace(options, as_of=_end(archive, population.watermark, options.as_of))
    if previous is not None:
        previous.check(options)
    events: list[SourceFile] = []
    files: set[str] = set()
    for part in found:
        # What becomes of spans and of rows without order depends on all of them.
        is_event_file = part.format is FileFormat.PARQUET and is_ready(part)
        if not is_event_file:
            files.add(part.name)
        elif previous is None or not previous.is_done(part.name, part.path.stat().st_size):
            events.append(part)
    idle = None if as_judged else round(options.idle_s * NS)
    assert options.as_of is not None, "a night ends at a time"
    needed = files_of_night(events, previous_as_of, options.as_of, idle)
    files |= {part.name for part in needed}
    return replace(options, previous_as_of=previous_as_of, files=frozenset(files))


def _end(archive: Sources, watermark: int | None, as_of: int | None) -> int:
    """Return the end of the night: `as_of`, which is at most the watermark, or the watermark itself."""
    if as_of is None and watermark is None:
        what = "does not state up to what time it is complete"
        raise SourceError("TRL441", named(archive), what, "name the end of the night: --as-of TIME")
    if as_of is None or watermark is None:
        return watermark if as_of is None else as_of  # pyright: ignore[reportReturnType]
    if as_of > watermark:
        what = f"is complete only up to {rfc3339(watermark)}, before --as-of {rfc3339(as_of)}"
        raise SourceError("TRL441", named(archive), what, "audit later, or as of an earlier time")
    return as_of
