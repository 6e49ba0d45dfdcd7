"""The risks of sessions over their events, with their greatest rises, as report and console draw them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

import polars as pl

from ...rules.engine.kernel_loop import NO_SLICE
from ...rules.model.arrays import I32, I64
from ...schemas.records.risk_crossing import rounded
from ..counting.labelled_sessions import LabelledSessions
from ..counting.sequences import Sequences
from ..explaining.rises import risk_rises
from ..explaining.words import horizon, percent, rise_words
from .follower import RuleFollower

TOP_SHARE = 1.25
"""The height of a drawing in thresholds, where no risk is greater."""


@dataclass(frozen=True, slots=True)
class LineRise:
    """A rise of a risk at the event `seq`, with the symbol of that event."""

    seq: int
    before: float
    after: float
    symbol: str


class DrawnCourse(NamedTuple):
    """A course as a path of SVG, and the height of the threshold."""

    path: str
    limit: str


@dataclass(frozen=True, slots=True)
class RiskCourse:
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
    rises: tuple[LineRise, ...]

    @property
    def greatest(self) -> float:
        """Return the greatest risk, 0 without any."""
        return max((risk for risk in self.risks if risk is not None), default=0.0)

    @property
    def is_warned(self) -> bool:
        """Return whether the risk comes to the threshold."""
        return self.greatest >= self.threshold

    @property
    def words(self) -> str:
        """Return the course in words."""
        greatest = self.greatest
        at = next((seq for seq, risk in zip(self.seqs, self.risks, strict=True) if risk == greatest), 0)
        most = f"risk {horizon(self.within)}, at most {percent(greatest)} (event {at})"
        return f"{most}; warning from {percent(self.threshold)}"

    @property
    def rises_in_words(self) -> tuple[str, ...]:
        """Return the greatest rises in words."""
        return tuple(rise_words(rise.before, rise.after, rise.seq, rise.symbol) for rise in self.rises)

    def drawn(self, places: Mapping[int, float], step: float, bottom: float, height: float) -> DrawnCourse:
        """Return the course as paths of SVG.

        `places` are the left ends of events by `seq`, and `step` is the width of one. The greatest risk, or a
        threshold that is above it by up to a quarter, is at the height above the bottom.
        """
        top = max(self.greatest, min(1.0, TOP_SHARE * self.threshold))
        line, is_down = list[str](), False
        for seq, risk in zip(self.seqs, self.risks, strict=True):
            if risk is not None and seq in places:
                y = bottom - height * risk / top
                x = f"{places[seq]:.5g}"
                line.append(f"H{x}V{y:.4g}h{step:.4g}" if is_down else f"M{x} {y:.4g}h{step:.4g}")
            is_down = risk is not None and seq in places
        return DrawnCourse("".join(line), f"{bottom - height * self.threshold / top:.4g}")


def risk_courses(
    follower: RuleFollower,
    found: Sequences,
    places: I32,
    sessions: LabelledSessions,
    events: pl.DataFrame,
    wanted: Container[int],
) -> Iterator[tuple[int, RiskCourse]]:
    """Yield the slot and the risk of each sequence of the slots `wanted` that has an event."""
    risks, every_seq = follower.risks, events["seq"].to_numpy()
    # The last one is that of no risk.
    shown = [None if isnan(risk) else rounded(risk) for risk in risks.values.tolist()]
    slots: list[int] = found.slots.tolist()
    for number, slot in enumerate(slots):
        first, last = int(found.bounds[number]) + 1, int(found.bounds[number + 1])
        if slot not in wanted or first == last:
            continue
        of_events: list[int] = places[first:last].tolist()
        rows: I64 = sessions.rows[found.events[first:last]]
        seqs: list[int] = every_seq[rows].tolist()
        rises = (
            LineRise(
                seqs[rise.at],
                rounded(rise.before),
                rounded(rise.after),
                follower.symbol(int(found.symbols[first + rise.at])),
            )
            for rise in risk_rises(risks.values[of_events])
        )
        yield (
            slot,
            RiskCourse(
                pack=risks.pack,
                rule=risks.rule,
                slice=slice_value(follower, sessions, events, int(found.slices[number])),
                within=risks.within,
                threshold=rounded(risks.threshold),
                seqs=tuple(seqs),
                risks=tuple([shown[place] for place in of_events]),
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
