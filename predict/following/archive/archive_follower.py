"""The following of one rule over the buckets of an archive: its crossings, and the worth of its warnings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....rules.engine.kernel import SLICES_MAX
from ....rules.model.arrays import I32, Mask
from ...counting.labelled_sessions import DistinctEvents
from ..follower import RuleFollower
from .entry_tables import EntryTables
from .session_loop import FAR, RATIOS, BucketSpans, FollowedOut, RuleLimits, Scratch, follow_sessions
from .warning_tally import WarningTally

ROOM = 1 << 16
"""Crossings, and sequences, that are found at once; a longer session has more room."""


@dataclass(frozen=True, slots=True)
class BucketSessions:
    """The events of whole sessions in judged order.

    `codes` number the distinct events; `over` are those over the limit, and verdicts count where `rated` is
    true. `slices` has the slice slot by event and `for_each` key, of so many slots.
    """

    sessions: BucketSpans
    codes: I32
    over: Mask
    rated: Mask
    slices: I32
    slice_count: int


class ArchiveFollower:
    """A rule over the buckets of an archive, which come in any order."""

    def __init__(self, follower: RuleFollower) -> None:
        self.follower = follower
        self.tally = WarningTally(follower.risks)
        self._tables = EntryTables(follower, self.tally.is_bet)

    def add(self, events: DistinctEvents) -> None:
        """Add distinct events; the first one has the code after the last one's."""
        self._tables.add(events)

    def follow(self, bucket: BucketSessions) -> I32:
        """Count the sessions of a bucket, and return their crossings as `FollowedOut` has them."""
        key, risks = self.follower.key, self.follower.risks
        # The loop reads no slices of a rule without them.
        slices = np.empty(0, np.int32) if key is None else bucket.slices[:, key]
        events = bucket.codes, bucket.over, np.ascontiguousarray(slices), bucket.rated
        within = int(FAR) if risks.within is None else risks.within
        betting = bool(self.tally.is_bet.any())
        limits = RuleLimits(key is not None, betting, SLICES_MAX, within)
        longest = int(np.diff(bucket.sessions.bounds).max(initial=0))
        scratch = Scratch(
            np.empty(longest + 1, dtype=np.int64),
            np.zeros(bucket.slice_count, dtype=np.uint8),
            np.empty(SLICES_MAX, dtype=np.int32),
        )
        tables, tallies = self._tables.arrays(), self.tally.begin(len(bucket.sessions.counted))
        begin, room, found = 0, ROOM, [np.empty((0, 5), dtype=np.int32)]
        while begin < len(bucket.sessions.counted):
            out = self._out(room, room if limits.is_sliced and limits.is_betting else 0)
            begin, needed, used, sequences = follow_sessions(
                begin, bucket.sessions, events, tables, limits, tallies, scratch, out
            )
            self.tally.add_logs(out.logs[:sequences], out.slots[:sequences])
            found.append(out.crossings[:used])
            room = max(ROOM, needed)
        self.tally.end(tallies)
        return np.concatenate(found)

    def _out(self, room: int, logs: int) -> FollowedOut:
        """Return room for so many crossings, for so many sequences, and for the logs of so many."""
        crossings, slots = np.empty((room, 5), dtype=np.int32), np.empty(room, dtype=np.int32)
        return FollowedOut(crossings, np.empty((logs, RATIOS)), slots)
