"""Sample events of propositions: at most one of a session, the first ones or drawn with a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from ...schemas.frames.events import EVENT_SCHEMA
from ..sources.discover import SourceFile
from ..sources.event_files import reading, scan

SAMPLES = 3
"""Sample events of a proposition, if no other number is asked for."""

_PART = 1 << 40
"""Rows of a file, at most."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The number of samples of a proposition; without a seed they are the first ones."""

    count: int = SAMPLES
    seed: int | None = None


@dataclass(slots=True)
class SampleDraw:
    """The samples so far: for each session the place of one event, by the session's key.

    Sessions with small keys are drawn. Without a seed the keys are the places of their first events.
    """

    sampling: Sampling
    _held: dict[int, tuple[int, int, int, int]] = field(default_factory=dict[int, tuple[int, int, int, int]])

    @property
    def is_final(self) -> bool:
        """Return whether no later event can be drawn."""
        return self.sampling.seed is None and len(self._held) >= self.sampling.count

    def add(self, part: int, rows: pl.DataFrame) -> None:
        """Draw from events of a file, which have the columns `row` and `session`."""
        seed = self.sampling.seed
        place = pl.col("row").cast(pl.UInt64) + part * _PART
        event_key = place if seed is None else place.hash(seed)
        session_key = pl.col("event_key") if seed is None else pl.col("session").hash(seed)
        drawn = (
            rows.select("row", "session", event_key.alias("event_key"))
            .sort("event_key")
            .unique("session", keep="first", maintain_order=True)
            .with_columns(session_key.alias("session_key"))
            .bottom_k(self.sampling.count, by="session_key")
        )
        for row, session, key, of_session in drawn.iter_rows():
            entry = (of_session, key, part, row)
            # Without a seed a session's first event has the least key, and later files have greater ones.
            if session not in self._held or entry[1] < self._held[session][1]:
                self._held[session] = entry
        drawn_sessions = sorted(self._held.items(), key=lambda item: item[1])[: self.sampling.count]
        self._held = dict(drawn_sessions)

    def places(self) -> list[tuple[int, int]]:
        """Return the number of the file and the row of each sample."""
        return [(part, row) for _, _, part, row in sorted(self._held.values())]


def events_at(parts: Sequence[SourceFile], places: Sequence[tuple[int, int]]) -> pl.DataFrame:
    """Return the events at these places (number of the file, row), in their order."""
    wanted: dict[int, list[int]] = {}
    for part, row in places:
        wanted.setdefault(part, []).append(row)
    found = [pl.DataFrame(schema={**EVENT_SCHEMA, "row": pl.UInt32, "part": pl.Int64})]
    for part, rows in wanted.items():
        events = scan(parts[part]).select(*EVENT_SCHEMA).with_row_index("row")
        with reading([parts[part]]):
            chosen = events.filter(pl.col("row").is_in(sorted(set(rows)))).collect(engine="streaming")
        found.append(chosen.select(*EVENT_SCHEMA, "row", pl.lit(part, pl.Int64).alias("part")))
    rows = pl.concat(found)
    order = {place: number for number, place in enumerate(rows.select("part", "row").iter_rows())}
    return rows.select(*EVENT_SCHEMA)[[order[place] for place in places]]
