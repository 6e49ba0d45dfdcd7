"""`risk.jsonl` of an audit: the crossings of the sessions that it judges, and the figures of the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl

from ...predict.following.archive.warning_tally import WarningFigures
from ...predict.following.risk_courses import RiskCourse
from ...rules.engine.judge import Judged
from ...rules.engine.sessions import Clock
from ...rules.model.arrays import I64
from ..evidence.bundle import RISK, VERDICTS, SessionName
from ..evidence.risk_lines import with_drift
from ..evidence.sorted_lines import SortedLines
from ..findings.waiving import RuleName
from ..prepare.options import AuditOptions
from ..report.choice import ChosenSession
from .archive_following import ArchiveFollowing
from .bucket_crossings import EVENT_COLUMNS, LATE_COLUMNS, BucketCrossings, session_lines
from .warned_sessions import CrossedSession, crossed_session, warned_sessions

WAITING_MAX = 200_000
"""Events of crossings whose late columns are read together."""

ReadRows = Callable[[I64], pl.DataFrame]
"""A function that returns `LATE_COLUMNS` of rows, whose numbers ascend."""


@dataclass(frozen=True, slots=True)
class FollowedArchive:
    """The figures of the followed rules, and the risks of drawn sessions by id and occurrence."""

    figures: Mapping[RuleName, WarningFigures]
    drawn: Mapping[SessionName, Sequence[RiskCourse]]


NOT_FOLLOWED = FollowedArchive({}, {})
"""The result of an audit without a chain."""


def followed_crossings(
    following: ArchiveFollowing, scratch: Path, options: AuditOptions
) -> FollowedCrossings:
    """Return no crossings yet of an audit, in the folder of its scratch files."""
    clock = Clock(last=0, idle=0, since=options.since, until=options.until)
    return FollowedCrossings(following, scratch / "crossings", clock)


@dataclass(slots=True)
class FollowedCrossings:
    """The crossings of an audit so far; `scratch` is an empty folder, and the clock has the window."""

    following: ArchiveFollowing
    scratch: Path
    clock: Clock
    lines: SortedLines[CrossedSession] = field(init=False)
    waiting: list[BucketCrossings] = field(default_factory=list[BucketCrossings])

    def __post_init__(self) -> None:
        self.lines = SortedLines(self.scratch, crossed_session)

    def add(self, judged: Judged) -> None:
        """Follow the sessions of a bucket that has all columns."""
        found = self.following.follow(judged, self.clock, (*EVENT_COLUMNS, *LATE_COLUMNS))
        self._add_lines(found)
        for session in self.following.unfollowed(judged):
            self.lines.add(session, b"")

    def add_rows(self, judged: Judged, row: str, read: ReadRows) -> None:
        """Follow the sessions of a bucket whose other columns are to be read by the number in a column."""
        found = self.following.follow(judged, self.clock, (*EVENT_COLUMNS, row))
        if len(found.events):
            self.waiting.append(found)
        if sum(len(each.events) for each in self.waiting) >= WAITING_MAX:
            self.read_waiting(row, read)

    def read_waiting(self, row: str, read: ReadRows) -> None:
        """Read the columns of all crossings that wait for them."""
        if not self.waiting:
            return
        wanted: list[I64] = [each.events[row].to_numpy() for each in self.waiting]
        rows = np.sort(np.concatenate(wanted))
        columns = read(rows)
        for found, numbers in zip(self.waiting, wanted, strict=True):
            late = columns[np.searchsorted(rows, numbers)].select(LATE_COLUMNS)
            self._add_lines(replace(found, events=found.events.drop(row).hstack(late)))
        self.waiting.clear()

    def write(self, work: Path, chosen: Sequence[ChosenSession]) -> FollowedArchive:
        """Write the lines of all crossings in the window to `RISK`.

        Return the figures of the rules, and the risks of the chosen sessions.
        """
        with (work / RISK).open("wb") as crossings, (work / VERDICTS).open("rb") as verdicts:
            found = warned_sessions(self._written(crossings), verdicts, self.following.digests)
        return FollowedArchive(self.following.figures(found), self.following.courses(chosen))

    def _written(self, out: BinaryIO) -> Iterator[CrossedSession]:
        """Write the lines, and yield the sessions."""
        drifted = self.following.drifted
        for session, text in self.lines.merged():
            out.write(with_drift(text, drifted) if drifted else text)
            yield session

    def _add_lines(self, found: BucketCrossings) -> None:
        for session, text in session_lines(found, self.following.rules):
            self.lines.add(session, text)
