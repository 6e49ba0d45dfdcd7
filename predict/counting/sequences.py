"""Sequences of one rule in a bucket of sessions: their places, and the transitions between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...rules.engine.kernel import SLICES_MAX
from ...rules.engine.kernel_loop import NO_SLICE
from ...rules.model.arrays import I32, I64, U8, Mask
from .labelled_sessions import DistinctEvents, LabelledSessions
from .sequence_loop import MAY_SKIP_COLUMN, NOT_SEEN, UNJUDGED_COLUMN, walk_sequences
from .step_rows import StepRows, SymbolLetters
from .watched_rules import WatchedRules

PLACES = 1 << 18
"""Places of sequences that are made at once; a longer session has more."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences one after another, with places as in `Walks`.

    Symbols are twice the number of a text, plus one where the event carries the slice's value; they and the
    `successors` of last places may be codes of `sequence_loop`. `rows` are rows of the rule's `StepRows`.
    `slots` are those of the sequences, `slices` their slice slots; `events[place]` is the place of the event
    in the bucket, -1 at a start.
    """

    symbols: I32
    rows: I32
    violated: Mask
    bounds: I64
    slots: I32
    slices: I32
    endings: U8
    events: I64
    successors: I32


class SymbolNumbers:
    """Numbers of the symbols of a pack, and the letters that each rule of the pack reads at them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self.letters: dict[int, dict[int, SymbolLetters]] = {}

    def number(self, text: str) -> int:
        """Return the number of a text."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def sequences(
    watched: WatchedRules, rule: int, sessions: LabelledSessions, symbols: SymbolNumbers, steps: StepRows
) -> Iterator[Sequences]:
    """Yield the sequences of a rule in the counted sessions of a bucket, in order, some at a time.

    `symbols` are those of the rule's pack, and `steps` the rule's own; both grow with what the bucket has.
    """
    numbers, columns, own_columns, marks = event_columns(watched, rule, sessions.distinct, symbols, steps)
    tables = numbers, columns, own_columns, marks, *steps.arrays()
    key = watched.rules[rule].for_each
    slices = np.full(len(sessions.codes), NO_SLICE, dtype=np.int32)
    if key is not None:
        slices = np.ascontiguousarray(sessions.slices[:, watched.compiled.labeler.slice_keys.index(key)])
    events = sessions.codes, sessions.over, slices
    born, births = np.zeros(sessions.slice_count, dtype=np.uint8), np.empty(SLICES_MAX, dtype=np.int32)
    slots = sessions.bounds, sessions.counted, sessions.open, born, births
    begin, size = 0, PLACES
    while begin < len(sessions.counted):
        out = _room(size)
        begin, places, count = walk_sequences(
            begin, events, slots, tables, (SLICES_MAX, key is not None), out
        )
        if count:
            yield _cut(out, places, count)
        elif begin < len(sessions.counted):
            size *= 2


def event_columns(
    watched: WatchedRules, rule: int, events: DistinctEvents, symbols: SymbolNumbers, steps: StepRows
) -> tuple[I32, I32, I32, U8]:
    """Return by code the symbol, the step column, and that of an event of the slice; and marks of columns."""
    places: list[int] = events.word_of.tolist()
    pack = watched.rules[rule].pack
    texts = watched.symbols(pack, events.words, places, events.kinds)
    numbers = [symbols.number(text) for text in texts]
    known = symbols.letters.setdefault(rule, {})
    found: list[SymbolLetters | None] = []
    for code, (number, place) in enumerate(zip(numbers, places, strict=True)):
        letters = None if code in events.unread else watched.letters(rule, events.letters, place)
        found.append(letters)
        if letters is not None:
            known[number] = letters
    seen = [letters for letters in found if letters is not None]
    slice_letters = [letters._replace(is_own=True) for letters in seen]
    every = steps.columns([*seen, *slice_letters] if watched.rules[rule].for_each is not None else seen)
    is_seen = np.array([letters is not None for letters in found], dtype=np.bool_)
    columns, own_columns = (np.full(len(found), NOT_SEEN, dtype=np.int32) for _ in range(2))
    columns[is_seen] = every[: len(seen)]
    own_columns[is_seen] = every[-len(seen) :] if seen else every
    marks = np.zeros(int(every.max(initial=-1)) + 1, dtype=np.uint8)
    for column, letters in zip(every.tolist(), [*seen, *slice_letters], strict=False):
        marks[column] = (0 if letters.rule else UNJUDGED_COLUMN) | (
            MAY_SKIP_COLUMN if None in letters.rule else 0
        )
    return np.array(numbers, dtype=np.int32), columns, own_columns, marks


def _room(size: int) -> tuple[NDArray[Any], ...]:
    """Return arrays for so many places and sequences, as `walk_sequences` fills them."""
    types = np.int32, np.int32, np.bool_, np.int64, np.int32, np.int32, np.uint8, np.int64, np.int32
    return tuple(np.empty(size, dtype) for dtype in types)


def _cut(out: tuple[Any, ...], places: int, count: int) -> Sequences:
    """Return the filled part of the arrays."""
    return Sequences(
        symbols=out[0][:places],
        rows=out[1][:places],
        violated=out[2][:places],
        bounds=np.append(out[3][:count], places),
        slots=out[4][:count],
        slices=out[5][:count],
        endings=out[6][:count],
        events=out[7][:places],
        successors=out[8][:count],
    )
