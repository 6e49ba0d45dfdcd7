"""The following of one rule over the buckets of an archive: its crossings, and the worth of its warnings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....rules.engine.kernel import SLICES_MAX
from ....rules.engine.kernel_loop import NO_SLICE
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
        self.tally = WarningTally(follower.risks, is_sliced=follower.key is not None)
        self._tables = EntryTables(follower, self.tally.is_bet)

    def add(self, events: DistinctEvents) -> None:
        """Add distinct events; the first one has the code after the last one's."""
        self._tables.add(events)

    def follow(self, bucket: BucketSessions) -> I32:
        """Count the sessions of a bucket, and return their crossings as `FollowedOut` has them."""
        key, risks = self.follower.key, self.follower.risks
        slices = bucket.slices[:, key] if key is not None else np.full(len(bucket.codes), NO_SLICE, np.int32)
        events = bucket.codes, bucket.over, np.ascontiguousarray(slices), bucket.rated
        within = int(FAR) if risks.within is None else risks.within
        limits = RuleLimits(is_sliced=key is not None, slices_max=SLICES_MAX, within=within)
        longest = int(np.diff(bucket.sessions.bounds).max(initial=0))
        scratch = Scratch(
            np.empty(longest + 1, dtype=np.int64),
            np.zeros(bucket.slice_count, dtype=np.uint8),
            np.empty(SLICES_MAX, dtype=np.int32),
        )
        tables, tallies = self._tables.arrays(), self.tally.begin(len(bucket.sessions.counted))
        begin, room, found = 0, ROOM, [np.empty((0, 5), dtype=np.int32)]
        while begin < len(bucket.sessions.counted):
            out = self._out(room)
            begin, needed, used, sequences = follow_sessions(
                begin, bucket.sessions, events, tables, limits, tallies, scratch, out
            )
            self.tally.add_logs(out.logs[:sequences], out.slots[:sequences])
            found.append(out.crossings[:used])
            room = max(ROOM, needed)
        self.tally.end(tallies)
        return np.concatenate(found)

    def _out(self, room: int) -> FollowedOut:
        """Return room for so many crossings, and for so many sequences."""
        logs = np.empty((room if self.tally.is_bet.any() else 0, RATIOS))
        return FollowedOut(np.empty((room, 5), dtype=np.int32), logs, np.empty(room, dtype=np.int32))
