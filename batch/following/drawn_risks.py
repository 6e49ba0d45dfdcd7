"""The risks of sessions that the report draws: by event, with their greatest rises."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ...predict.counting.labelled_sessions import LabelledSessions
from ...predict.counting.sequences import Sequences
from ...predict.explaining.rises import risk_rises
from ...predict.following.follower import RuleFollower
from ...rules.engine.kernel_loop import NO_SLICE
from ...rules.model.arrays import F64, I32, I64
from ...schemas.records.risk_crossing import rounded


@dataclass(frozen=True, slots=True)
class DrawnRise:
    """A rise of a risk at the event `seq`, with the symbol of that event."""

    seq: int
    before: float
    after: float
    symbol: str


@dataclass(frozen=True, slots=True)
class DrawnRisk:
    """The risk of a rule in one sequence of a session.

    `risks` has it after the events `seqs`, None where there is none.
    """

    pack: str
    rule: str
    slice: str | None
    within: int | None
    threshold: float
    seqs: tuple[int, ...]
    risks: tuple[float | None, ...]
    rises: tuple[DrawnRise, ...]

    @property
    def greatest(self) -> float:
        """Return the greatest risk, 0 without any."""
        return max((risk for risk in self.risks if risk is not None), default=0.0)


def drawn_risks(
    follower: RuleFollower,
    found: Sequences,
    places: I32,
    sessions: LabelledSessions,
    events: pl.DataFrame,
    wanted: Container[int],
) -> Iterator[tuple[int, DrawnRisk]]:
    """Yield the slot and the risk of each sequence of the slots `wanted` that has an event."""
    risks = follower.risks
    slots: list[int] = found.slots.tolist()
    for number, slot in enumerate(slots):
        first, last = int(found.bounds[number]) + 1, int(found.bounds[number + 1])
        if slot not in wanted or first == last:
            continue
        values: F64 = risks.values[places[first:last]]
        rows: I64 = sessions.rows[found.events[first:last]]
        seqs: list[int] = events["seq"][rows].to_list()
        named: list[Any] = values.tolist()
        rises = (
            DrawnRise(
                seqs[rise.at],
                rounded(rise.before),
                rounded(rise.after),
                follower.symbol(int(found.symbols[first + rise.at])),
            )
            for rise in risk_rises(values)
        )
        yield (
            slot,
            DrawnRisk(
                pack=risks.pack,
                rule=risks.rule,
                slice=slice_value(follower, sessions, events, int(found.slices[number])),
                within=risks.within,
                threshold=rounded(risks.threshold),
                seqs=tuple(seqs),
                risks=tuple(None if np.isnan(risk) else rounded(risk) for risk in named),
                rises=tuple(rises),
            ),
        )


def slice_value(
    follower: RuleFollower, sessions: LabelledSessions, events: pl.DataFrame, member: int
) -> str | None:
    """Return the value of a slice slot, None where there is no slice."""
    if member == NO_SLICE or follower.key is None:
        return None
    return events[f"s{follower.key}"][int(sessions.rows[sessions.slice_places[member]])]
