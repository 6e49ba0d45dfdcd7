"""Witnesses over trail tables, asked for as the reference asks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from tracline.rules.engine import kernel, kernel_loop
from tracline.rules.engine.kernel import I64
from tracline.rules.engine.witness import (
    RunWitness,
    TrailProgram,
    TrailRows,
    TrailRuns,
    before_events,
    lay_out_trails,
    replay,
    runs_of,
    witnesses,
)
from tracline.rules.model.machine import Machine
from tracline.rules.model.rule import Rule


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
        explained = witnesses(trails, replay(trails, _rows(trails, words), runs, memory))
        found.update(zip(asked, explained, strict=True))
    return found


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
