"""Labelled events of whole sessions, as counting reads them: their distinct words and kinds, and slices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ...rules.engine import kernel
from ...rules.engine.judge import CompiledRules, columns_at, label_columns, read_labels, slice_slots
from ...rules.engine.kernel import LetterTable
from ...rules.engine.letters import LabelWords
from ...rules.engine.sessions import Clock, in_order, occurrences_of
from ...rules.model.arrays import I32, I64, Mask
from ...schemas.event import Kind


@dataclass(frozen=True, slots=True)
class DistinctEvents:
    """Distinct pairs of a word and a kind by code, with the letter table of the words.

    The events of the codes in `unread` are read by no rule.
    """

    words: LabelWords
    letters: LetterTable
    word_of: I32
    kinds: tuple[str, ...]
    unread: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class LabelledSessions:
    """The events of a bucket in judged order; those of slot `s` are `bounds[s]` to `bounds[s + 1]`.

    `codes` number the distinct pairs of a word and a kind, which `word_of` and `kinds` have. `over` are the
    events that no rule judges. `slices` has the slice slot by event and `for_each` key, and
    `slice_places` an event that carries each slot's value. `ids`, `occurrences`
    and `agents` are of the slots; those with an event in the window are `counted`. `rows` are the events'
    rows in the bucket's frame.
    """

    words: LabelWords
    letters: LetterTable
    codes: I32
    word_of: I32
    kinds: tuple[str, ...]
    over: Mask
    slices: I32
    slice_places: I64
    bounds: I64
    counted: Mask
    open: Mask
    ids: tuple[str, ...]
    occurrences: I64
    agents: tuple[str, ...]
    rows: I64

    @property
    def slice_count(self) -> int:
        """Return the number of slice slots."""
        return len(self.slice_places)

    @property
    def distinct(self) -> DistinctEvents:
        """Return the distinct events."""
        unread = frozenset(np.unique(self.codes[self.over]).tolist())
        return DistinctEvents(self.words, self.letters, self.word_of, self.kinds, unread)


def read_sessions(
    compiled: CompiledRules, labelled: pl.DataFrame, clock: Clock, by: str | None = None
) -> LabelledSessions:
    """Return the events of a bucket in judged order; `by` is the column that names a session's agent.

    `labelled` has `JUDGED_COLUMNS`, that column and the labeler's columns, with rows in any order.
    """
    order = in_order(labelled)
    sessions = occurrences_of(order, labelled, clock)
    slots = np.repeat(np.arange(len(sessions.counted), dtype=np.int32), np.diff(sessions.bounds))
    labels = columns_at(labelled, ["seq", *label_columns(compiled)], order.rows)
    words, codes, letters = read_labels(compiled, labels)
    slices, slice_places = slice_slots(labels, slots, compiled.program.keys)
    kinds = labelled["kind"][order.rows]
    pairs = codes.astype(np.int64) << 8 | kinds.to_physical().to_numpy()
    distinct, numbers = np.unique(pairs, return_inverse=True)
    pair_codes: list[int] = distinct.tolist()
    names = [kind.value for kind in Kind]
    starts = order.rows[sessions.bounds[:-1]]
    return LabelledSessions(
        words=words,
        letters=letters,
        codes=numbers.astype(np.int32),
        word_of=(distinct >> 8).astype(np.int32),
        kinds=tuple(names[pair & 0xFF] for pair in pair_codes),
        over=labels["seq"].to_numpy() > kernel.EVENTS_MAX,
        slices=slices,
        slice_places=slice_places,
        bounds=sessions.bounds,
        counted=sessions.counted,
        open=sessions.open,
        ids=tuple(labelled["session_id"][starts].to_list()),
        occurrences=labelled["occurrence"][starts].cast(pl.Int64).to_numpy(),
        agents=_agents(labelled, order.rows, slots, by, len(starts)),
        rows=order.rows,
    )


def _agents(labelled: pl.DataFrame, rows: I64, slots: I32, by: str | None, count: int) -> tuple[str, ...]:
    """Return the first name that an event of each slot has in the column `by`, "" where none has one."""
    if by is None:
        return ("",) * count
    named = pl.DataFrame({"slot": slots, "name": labelled[by][rows]}).drop_nulls()
    found = dict(named.group_by("slot", maintain_order=True).first().iter_rows())
    return tuple(found.get(slot, "") for slot in range(count))
