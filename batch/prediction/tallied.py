"""The tally of an archive: any source that an audit reads, by whole sessions, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ...predict.counting.labelled_sessions import LabelledSessions, read_sessions
from ...predict.counting.split import Split
from ...predict.counting.tally import ChainTally
from ...predict.counting.watched_rules import WatchedRules
from ...rules.engine.judge import JUDGED_COLUMNS
from ...rules.engine.sessions import Clock
from ...schemas.time import NS
from ..audit.audit import OnProgress, in_threads, silent
from ..prepare.buckets import labelled
from ..prepare.options import AuditOptions
from ..prepare.prepare import prepare
from ..sources.discover import Population, Sources
from .walk_files import WalkFiles


def tallied(
    archive: Sources,
    watched: WatchedRules,
    split: Split,
    scratch: Path,
    options: AuditOptions,
    population: Population,
    by: str | None = None,
    on_progress: OnProgress = silent,
) -> ChainTally:
    """Return the tally of an archive; `by` is the column that names a session's agent.

    `scratch` is an empty folder of the caller, which the result reads. Raises SourceError if there is nothing
    to read.
    """
    walks = scratch / "walks"
    walks.mkdir()
    tally = ChainTally(watched, split, WalkFiles(walks))
    for sessions in labelled_sessions(archive, watched, scratch, options, population, by, on_progress):
        tally.add(sessions)
    return tally


def labelled_sessions(
    archive: Sources,
    watched: WatchedRules,
    scratch: Path,
    options: AuditOptions,
    population: Population,
    by: str | None = None,
    on_progress: OnProgress = silent,
) -> Iterator[LabelledSessions]:
    """Read and label an archive, and yield its sessions by buckets, in no particular order."""
    parts = prepare(archive, scratch, population, options)
    keep = JUDGED_COLUMNS if by is None or by in JUDGED_COLUMNS else (*JUDGED_COLUMNS, by)
    on_rows = partial(on_progress, "labelling")
    labeler = watched.compiled.labeler
    buckets = labelled(parts, labeler, scratch, options.as_of, on_rows, keep=keep)
    last = buckets.last if options.as_of is None else options.as_of
    clock = Clock(last=last or 0, idle=round(options.idle_s * NS), since=options.since, until=options.until)
    frames = (frame.collect(engine="streaming") for frame in buckets.frames)
    work = partial(read_sessions, watched.compiled, clock=clock, by=by)
    done = 0
    for sessions in in_threads(work, frames, options.threads):
        yield sessions
        done += len(sessions.codes)
        on_progress("counting", done, buckets.rows)
