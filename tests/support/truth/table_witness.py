"""Witnesses over trail tables, asked for as the reference asks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from tracline.rules.engine import kernel, kernel_loop
from tracline.rules.engine.witness import (
    Explanations,
    TrailProgram,
    TrailRows,
    TrailRuns,
    before_events,
    lay_out_trails,
    replay,
    runs_of,
    witnesses,
)
from tracline.rules.model.arrays import I64
from tracline.rules.model.machine import Machine
from tracline.rules.model.rule import Rule


class RunWitnessEvent(NamedTuple):
    """An event that changed the residual: its place, its true propositions, the new residual."""

    place: int
    true: tuple[str, ...]
    residual: str


class HistoryBit(NamedTuple):
    """A past formula that decided a verdict, its value, and the place of the event that last changed it.

    `place` is None where no event changed the value. Before the first event `once p` is false and
    `historically p` true, so the first event can change either.
    """

    formula: str
    value: bool
    place: int | None


class RunWitness(NamedTuple):
    """The explanation of a verdict by places: events in order, the verdict's last, and deciding history."""

    events: tuple[RunWitnessEvent, ...]
    history: tuple[HistoryBit, ...] = ()
    truncated: bool = False


def trails_of(rule: Rule, machine: Machine) -> TrailProgram:
    """Return the trail program of one rule without slices."""
    bits = {(rule.pack, name): bit for bit, name in enumerate(machine.propositions)}
    return lay_out_trails((rule,), (machine,), bits, kernel.lay_out([machine], [False], [None]))


def table_witnesses(
    rule: Rule, machine: Machine, labels: Sequence[Collection[str]], at: Collection[int]
) -> Mapping[int, RunWitness]:
    """Return the witness at each of the indices `at`, from one replay over the rule's trail table."""
    return replayed(trails_of(rule, machine), machine, labels, [(0, len(labels))], at)


def replayed(
    trails: TrailProgram,
    machine: Machine,
    labels: Sequence[Collection[str]],
    parts: Iterable[tuple[int, int]],
    at: Collection[int],
) -> Mapping[int, RunWitness]:
    """Return the witnesses from replays of consecutive parts of the labels, with one trail."""
    words = [machine.word(true) for true in labels]
    memory: I64 | None = None
    found: dict[int, RunWitness] = {}
    for begin, end in parts:
        asked = sorted(index for index in set(at) if begin <= index < end)
        runs = _run(trails, begin, end, asked)
        memory = before_events(trails, runs) if memory is None else memory
        explained = _witnesses(trails, replay(trails, _rows(trails, words), runs, memory))
        found.update(zip(asked, explained, strict=True))
    return found


def replayed_apart(
    trails: TrailProgram,
    machine: Machine,
    words: Sequence[Sequence[Collection[str]]],
    at: Sequence[Sequence[int]],
) -> list[Mapping[int, RunWitness]]:
    """Return the witnesses at the given indices of each word, from one replay with a run for each word."""
    begins = np.cumsum([0, *map(len, words)], dtype=np.int64)
    runs = runs_of(
        trails,
        begins=begins[:-1],
        ends=begins[1:],
        columns=np.zeros(len(words), dtype=np.int32),
        slices=np.full(len(words), kernel_loop.NO_SLICE, dtype=np.int32),
        bounds=np.cumsum([0, *map(len, at)], dtype=np.int64),
        asked=np.repeat(begins[:-1], list(map(len, at))) + np.array(list(chain(*at)), dtype=np.int64),
    )
    rows = _rows(trails, [machine.word(true) for word in words for true in word])
    explained = _witnesses(trails, replay(trails, rows, runs, before_events(trails, runs)))
    return [
        {index: _moved(next(explained), -begin) for index in indices}
        for begin, indices in zip(begins.tolist(), at, strict=False)
    ]


def _witnesses(trails: TrailProgram, found: Explanations) -> Iterator[RunWitness]:
    """Yield the witnesses with the places of their events, which stand in for their `seq`."""
    for each in witnesses(trails, found, lambda places: ((str(place), place) for place in places)):
        events = tuple(RunWitnessEvent(event.seq, event.true, event.residual) for event in each.events)
        history = tuple(HistoryBit(bit.formula, bit.value, bit.seq) for bit in each.history)
        yield RunWitness(events, history, each.truncated)


def _moved(witness: RunWitness, by: int) -> RunWitness:
    """Return a witness with other places of its events."""
    return witness._replace(
        events=tuple(event._replace(place=event.place + by) for event in witness.events),
        history=tuple(
            bit if bit.place is None else bit._replace(place=bit.place + by) for bit in witness.history
        ),
    )


def _rows(trails: TrailProgram, words: Sequence[int]) -> TrailRows:
    column = np.array(words, dtype=np.int32)[:, None]
    codes = np.arange(len(words), dtype=np.int32)
    letters, slices = trails.tables[0].letters[column], np.empty((len(words), 0), dtype=np.int32)
    return TrailRows(codes, letters, column, slices)


def _run(trails: TrailProgram, begin: int, end: int, asked: Sequence[int]) -> TrailRuns:
    return runs_of(
        trails,
        begins=np.array([begin], dtype=np.int64),
        ends=np.array([end], dtype=np.int64),
        columns=np.zeros(1, dtype=np.int32),
        slices=np.array([kernel_loop.NO_SLICE], dtype=np.int32),
        bounds=np.array([0, len(asked)], dtype=np.int64),
        asked=np.array(asked, dtype=np.int64),
    )
