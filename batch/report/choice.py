"""The choice of the sessions that a report draws, while an audit judges them.

They are the worst ones, and a seeded sample of those without a violation. Only the sessions that are chosen
so far are in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, label_columns
from ...rules.engine.sessions import numbers
from ...rules.engine.status import unmet_findings, violation_findings
from ...rules.model.arrays import I64, Mask
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.time import rfc3339
from .draw_numbers import draw_numbers

WORST_MAX = 12
"""Sessions with the most severe violations that are drawn."""
SAMPLE_MAX = 6
"""Sessions without a violation that are drawn."""
EVENTS_DRAWN_MAX = 500
"""Events of a session that is drawn; longer ones are listed without their events."""

SHOWN = ("seq", "event_id", "time", "kind", "tool", "agent")
"""The columns of a drawn event; with texts also `text`."""

_RULES_MAX, _VERDICTS_MAX = (1 << 16) - 1, (1 << 32) - 1
"""The largest counts of a session that are distinguished."""

Why = Literal["worst", "sample"]


@dataclass(frozen=True, slots=True)
class ChosenSession:
    """A session, or a segment of it, as it was judged: its events in judged order, their labels, its records.

    All are empty for a session of more than `EVENTS_DRAWN_MAX` events.
    """

    session_id: str
    occurrence: str
    why: Why
    compiled: CompiledRules
    is_open: bool
    events: Sequence[dict[str, Any]]
    labels: pl.DataFrame
    records: list[VerdictRecord] = field(default_factory=list[VerdictRecord])


class _Rank(NamedTuple):
    """The sort key of sessions: what orders them, then the session, its occurrence and its first event."""

    number: int
    session_id: str
    occurrence: str
    seq: int


class SessionChoice:
    """The sessions that are chosen so far; they do not depend on the order in which sessions come.

    The buckets have the columns `more` beside their labels, and so have the labels of chosen sessions.
    """

    def __init__(self, seed: int, *, with_text: bool, more: Sequence[str] = ()) -> None:
        self._seed, self._more = seed, more
        self._shown = (*SHOWN, "text") if with_text else SHOWN
        self._chosen: dict[Why, dict[_Rank, ChosenSession]] = {"worst": {}, "sample": {}}

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the events that sessions are chosen from and counted by, beside labels."""
        return tuple(dict.fromkeys([*JUDGED_COLUMNS, "model", *self._shown]))

    @property
    def sessions(self) -> list[ChosenSession]:
        """Return the chosen sessions by id and occurrence."""
        found = [(rank[1:], each) for chosen in self._chosen.values() for rank, each in chosen.items()]
        return [each for _, each in sorted(found, key=lambda pair: pair[0])]

    def add(
        self, compiled: CompiledRules, judged: Judged, whole: Mask | None = None
    ) -> dict[tuple[str, str], list[VerdictRecord]]:
        """Choose among the sessions of a bucket, and return the lists for the records of those chosen now.

        The lists are by session id and occurrence. Only `whole` sessions are among those without a violation.
        """
        weights = breach_weights(compiled, judged)
        bad, clean = np.flatnonzero(weights), clean_slots(judged, weights)
        clean = clean if whole is None else clean[whole[clean]]
        begins = judged.sessions.bounds[clean]
        ids, occurrences = judged.column("session_id", begins), judged.column("occurrence", begins)
        drawn = draw_numbers(ids, numbers(occurrences), self._seed)
        new = {
            **self._add("worst", WORST_MAX, bad, -weights[bad], compiled, judged),
            **self._add("sample", SAMPLE_MAX, clean, drawn, compiled, judged),
        }
        return {(each.session_id, each.occurrence): each.records for each in new.values()}

    def _add(
        self,
        why: Why,
        count: int,
        slots: I64,
        order: NDArray[Any],
        compiled: CompiledRules,
        judged: Judged,
    ) -> dict[_Rank, ChosenSession]:
        """Choose the `count` sessions whose numbers in `order` are the smallest, and return the new ones."""
        held = self._chosen[why]
        if not len(slots):
            return {}
        near = order <= np.sort(order)[:count][-1]
        if len(held) == count:
            near &= order <= max(held).number
        slots, begins = slots[near], judged.sessions.bounds[slots[near]]
        ranks = map(
            _Rank,
            order[near].tolist(),
            judged.column("session_id", begins).to_list(),
            map(rfc3339, numbers(judged.column("occurrence", begins)).tolist()),
            judged.column("seq", begins).to_list(),
        )
        found: dict[_Rank, int] = dict(zip(ranks, slots.tolist(), strict=True))
        least = sorted([*held, *found])[:count]
        new = {
            rank: self._session(rank, why, compiled, judged, found[rank]) for rank in least if rank in found
        }
        self._chosen[why] = {rank: new[rank] if rank in new else held[rank] for rank in least}
        return new

    def _session(
        self, rank: _Rank, why: Why, compiled: CompiledRules, judged: Judged, slot: int
    ) -> ChosenSession:
        """Return the session in a slot of a bucket."""
        begin, end = judged.sessions.bounds[slot], judged.sessions.bounds[slot + 1]
        rows = judged.labelled[judged.order.rows[begin : end if end - begin <= EVENTS_DRAWN_MAX else begin]]
        events = rows.select(self._shown).with_columns(pl.col("time").to_physical())
        return ChosenSession(
            session_id=rank.session_id,
            occurrence=rank.occurrence,
            why=why,
            compiled=compiled,
            is_open=bool(judged.sessions.open[slot]),
            events=events.rows(named=True),
            labels=rows.select("seq", *label_columns(compiled), *self._more),
        )


def breach_weights(compiled: CompiledRules, judged: Judged) -> I64:
    """Return a number for each session of a bucket, the larger the worse, 0 without a breach.

    A more severe breach comes first, then more broken rules, then more verdicts.
    """
    breaches = violation_findings(judged.found, judged.rated), unmet_findings(judged.closed, judged.rated)
    slots = np.concatenate([found.slots for found in breaches]).astype(np.int64)
    columns = np.concatenate([found.columns for found in breaches]).astype(np.int64)
    count, width = len(judged.sessions.open), len(compiled.rules)
    order: list[int] = compiled.program.order.tolist()
    ranks = np.array([compiled.rules[number].severity.rank for number in order], np.int64)
    worst = np.zeros(count, np.int64)
    np.maximum.at(worst, slots, ranks[columns] if width else columns)
    rules = np.bincount(np.unique(slots * width + columns) // max(width, 1), minlength=count)
    verdicts = np.bincount(slots, minlength=count)
    return worst << 48 | np.minimum(rules, _RULES_MAX) << 32 | np.minimum(verdicts, _VERDICTS_MAX)


def clean_slots(judged: Judged, weights: I64) -> I64:
    """Return the slots of the sessions that count and have no breach."""
    return np.flatnonzero(judged.sessions.counted & (weights == 0))
