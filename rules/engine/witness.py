"""Witnesses: the events that explain a verdict (TRAC, Alg. 1, line 11), found by replaying its run.

The paper records every event that changed the formula since the start. A thousand answered calls explain
nothing, so a witness here begins after the residual last equalled the rule.
`rules/reference/slow_witness.py` specifies witnesses in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ...schemas.records.verdict_record import Witness, WitnessEvent, WitnessHistory
from ..model.arrays import I32, I64
from ..model.machine import Machine
from ..model.rule import Rule
from . import trail_loop
from .kernel import Findings, LetterTable, Program
from .letters import LabelWords
from .trail_loop import (
    AT_BITS,
    CHANGE_SIZE,
    CHANGES_SIZE,
    HEAD_SIZE,
    SKIPPED,
    UNREADABLE,
    WITNESS_EVENTS_MAX,
)
from .trail_table import TrailTable, trail_table

Array: TypeAlias = NDArray[Any]

IdsOf: TypeAlias = Callable[[Sequence[int]], Iterable[tuple[str, int]]]
"""Returns the ids and the `seq` of the events at places in judged order."""


@dataclass(frozen=True, slots=True)
class TrailProgram:
    """The trail tables of a rule set by column of the kernel's program, and the same as flat arrays.

    `names` are the propositions of each column's machine, `bits` their bits in the label words. `sizes` has
    the number of integers of a trail of each column. `arrays` are those that `trail_loop` takes.
    """

    tables: tuple[TrailTable, ...]
    names: tuple[tuple[str, ...], ...]
    bits: tuple[tuple[int, ...], ...]
    sizes: I64
    arrays: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class TrailRows:
    """Events in judged order as trails read them.

    Event `i` reads the row `codes[i]` of `letters`, which has the letters of the trail tables by column, and
    of `words`, which has the words of the machines. `slices` are as in `kernel.Rows`.
    """

    codes: I32
    letters: I32
    words: I32
    slices: I32


@dataclass(frozen=True, slots=True)
class TrailRuns:
    """Runs to replay: each goes over the rows from `begins` to `ends`, for a column and a slice slot.

    The trail of run `i` begins at `offsets[i]`. `asked[bounds[i]:bounds[i + 1]]` are the places, in order, at
    which a witness of run `i` is asked for.
    """

    begins: I64
    ends: I64
    columns: I32
    slices: I32
    offsets: I64
    bounds: I64
    asked: I64


@dataclass(frozen=True, slots=True)
class Explanations:
    """Witnesses as arrays, in the order in which they were asked for; `columns` are those of their runs.

    A row of `heads` has the first of the witness's `events` and their number, 1 if it is truncated, and the
    numbers of the values of the history bits and of the deciding bits in the column's table. `changed_at` has
    for each bit the place of the event that last changed it.
    """

    columns: I32
    heads: I64
    events: I64
    changed_at: I64


def lay_out_trails(
    rules: Sequence[Rule],
    machines: Sequence[Machine],
    propositions: Mapping[tuple[str, str], int],
    program: Program,
) -> TrailProgram:
    """Return the trail tables of the rules; `propositions` maps each (pack, name) to its bit."""
    numbers = cast("list[int]", program.order.tolist())
    tables = tuple(trail_table(rules[number], machines[number]) for number in numbers)
    names = tuple(machines[number].propositions for number in numbers)
    bits = tuple(
        tuple(propositions[rules[number].pack, name] for name in machines[number].propositions)
        for number in numbers
    )
    counts = np.array([len(table.bits) for table in tables], dtype=np.int64)
    depths = np.array([table.delays.max(initial=1) for table in tables], dtype=np.int64)
    arrays = (
        _flat([table.entries.ravel() for table in tables], np.int32),
        _starts([len(table.entries) for table in tables]),
        np.array([table.width for table in tables], dtype=np.int64),
        program.groups,
        _flat([table.values.ravel() for table in tables], np.uint8),
        _starts([table.values.size for table in tables]),
        counts,
        _flat([table.delays for table in tables], np.int64),
        _starts([len(table.delays) for table in tables]),
        depths,
    )
    return TrailProgram(tables, names, bits, AT_BITS + counts + CHANGES_SIZE + depths, arrays)


def _flat(arrays: Sequence[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.empty(0, dtype=dtype), *arrays])


def _starts(sizes: Sequence[int]) -> I64:
    """Return where each of consecutive parts of these sizes begins."""
    return np.cumsum([0, *sizes], dtype=np.int64)[:-1]


def trail_letters(
    trails: TrailProgram, program: Program, words: LabelWords, table: LetterTable, columns: Iterable[int]
) -> tuple[I32, I32]:
    """Return the letters of the trail tables and the words of the machines, by label word and column.

    A verdict is given where all runs agree, so a witness is that of one run: its events have the stand-ins of
    the table. Only these `columns` of the results are set.
    """
    letters = table.letters
    found = np.empty(letters.shape, dtype=np.int32)
    packed = np.empty(letters.shape, dtype=np.int32)
    for column in columns:
        letter = letters[:, column]
        follows = letter == program.follow[column]
        word = np.where(follows, table.stand_in[:, column], words.packed(trails.bits[column]))
        packed[:, column] = word
        read = np.where(letter == program.skip[column], SKIPPED, trails.tables[column].letters[word])
        found[:, column] = np.where(letter == program.unknown[column], UNREADABLE, read)
    return found, packed


def run_starts(found: Findings) -> I64:
    """Return where each run begins in findings that are ordered by slot, column and slice."""
    runs = np.stack([found.slots, found.columns, found.slices])
    return np.flatnonzero(np.append(True, np.any(runs[:, 1:] != runs[:, :-1], axis=0))[: runs.shape[1]])


def runs_of(
    trails: TrailProgram,
    *,
    begins: I64,
    ends: I64,
    columns: I32,
    slices: I32,
    bounds: I64,
    asked: I64,
) -> TrailRuns:
    """Return runs with their trails one after another."""
    sizes = trails.sizes[columns]
    return TrailRuns(begins, ends, columns, slices, np.cumsum(sizes) - sizes, bounds, asked)


def before_events(trails: TrailProgram, runs: TrailRuns) -> I64:
    """Return the trails of these runs before their first events."""
    memory = np.full(int(trails.sizes[runs.columns].sum()), -1, dtype=np.int64)
    for part in range(AT_BITS):
        memory[runs.offsets + part] = 0
    return memory


def replay(trails: TrailProgram, rows: TrailRows, runs: TrailRuns, memory: I32 | I64) -> Explanations:
    """Step the trails of the runs, changing `memory`, and return the witnesses that are asked for."""
    asked = len(runs.asked)
    bits_max = max((len(table.bits) for table in trails.tables), default=0)
    heads = np.empty((asked, HEAD_SIZE), dtype=np.int64)
    events = np.empty((asked * WITNESS_EVENTS_MAX, CHANGE_SIZE), dtype=np.int64)
    changed_at = np.full((asked, bits_max), -1, dtype=np.int64)
    used = trail_loop.replay(
        (runs.begins, runs.ends, runs.columns, runs.slices, runs.offsets, runs.bounds, runs.asked),
        (rows.codes, rows.letters, rows.words, rows.slices),
        trails.arrays,
        memory,
        (heads, events, changed_at),
    )
    columns = np.repeat(runs.columns, np.diff(runs.bounds))
    return Explanations(columns, heads, events[:used], changed_at)


def witnesses(trails: TrailProgram, found: Explanations, ids_of: IdsOf) -> Iterator[Witness]:
    """Yield the witnesses of the explanations, in their order; `ids_of` names their events."""
    sizes = len(found.events), found.changed_at.shape[1]
    distinct, numbers = np.unique(
        np.concatenate([found.events[:, 0], found.changed_at.ravel()]), return_inverse=True
    )
    absent = int(np.searchsorted(distinct, 0))
    ids: list[Any] = [*[(None, None)] * absent, *ids_of(distinct[absent:].tolist())]
    # Flat lists of numbers: the garbage collector visits every list of a list of lists.
    at, changed = numbers[: sizes[0]].tolist(), numbers[sizes[0] :].tolist()
    _, words, residuals = _lists(found.events)
    firsts, counts, truncated, values, deciding = _lists(found.heads)
    names: dict[tuple[int, int], tuple[str, ...]] = {}
    for i, column in enumerate(cast("list[int]", found.columns.tolist())):
        table, shown = trails.tables[column], list[WitnessEvent]()
        for j in range(firsts[i], firsts[i] + counts[i]):
            true = names.get((column, words[j]))
            if true is None:
                true = names[column, words[j]] = _true(trails.names[column], words[j])
            event_id, seq = ids[at[j]]
            shown.append(WitnessEvent(event_id, table.residuals[residuals[j]], seq, true))
        history: list[WitnessHistory] = []
        for bit in table.deciding[deciding[i]]:
            event_id, seq = ids[changed[i * sizes[1] + bit]]
            history.append(WitnessHistory(event_id, table.bits[bit], seq, bool(table.values[values[i], bit])))
        yield Witness(tuple(shown), tuple(history), bool(truncated[i]))


def _lists(rows: I64) -> list[list[int]]:
    """Return each column as a list."""
    return [cast("list[int]", column.tolist()) for column in rows.T]


def _true(names: Sequence[str], word: int) -> tuple[str, ...]:
    """Return the propositions that are true in a machine's word."""
    return tuple(name for bit, name in enumerate(names) if word >> bit & 1)
