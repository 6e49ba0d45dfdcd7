"""The cost of labelling beside reading the same columns: `PYTHONPATH=. python benchmarks/labels.py [EVENTS]`.

Writes synthetic events as Parquet to a temporary folder and labels them by the shipped packs, with Polars'
streaming engine, whole and one proposition or slice key at a time, and a few events in memory. Prints
nanoseconds per event: processor time of all threads, which other work on the machine disturbs little, and the
clock on the wall.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl
from tracline.rules.labels.labeler import Labeler
from tracline.rules.model.rule import Rule, RuleSet
from tracline.rules.packs.load import load_packs, shipped_packs

from tests.support.synthetic_events import synthetic_events

ROUNDS = 3
MANY_LIVE = 20
"""The most events that a live monitor labels together with little traffic."""


class Cost(NamedTuple):
    """The processor time of all threads, and the wall-clock time."""

    cpu: float
    wall: float


def main() -> None:
    """Run the benchmark and print its table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rules = load_packs(shipped_packs())
    labels = Labeler(rules)
    with tempfile.TemporaryDirectory() as folder:
        for number, chunk in enumerate(synthetic_events(count, seed=1)):
            chunk.write_parquet(Path(folder) / f"{number:05d}.parquet")
        events = pl.scan_parquet(Path(folder) / "*.parquet")
        rows = int(events.select(pl.len()).collect().item())
        print(f"{rows:,} events, {len(rules.rules)} rules, {len(labels.propositions)} propositions, ", end="")
        print(f"{len(labels.slice_keys)} slice keys, {pl.thread_pool_size()} threads")

        def cost(frame: pl.LazyFrame) -> Cost:
            best = min((_spent(frame) for _ in range(ROUNDS)), key=lambda spent: spent.cpu)
            return Cost(best.cpu / rows * 1e9, best.wall / rows * 1e9)

        reading, whole = cost(events.select(labels.fields)), cost(labels.label(events))
        print("     cpu      wall  ns per event")
        print(f"{reading.cpu:8.1f}  {reading.wall:8.1f}  reading {', '.join(labels.fields)}")
        print(f"{whole.cpu:8.1f}  {whole.wall:8.1f}  all labels: {whole.cpu / reading.cpu:.1f} times reading")
        few = events.head(MANY_LIVE).collect()
        for size in (1, MANY_LIVE):
            soon = min(_soon(labels, few.head(size)) for _ in range(100 * ROUNDS))
            print(f"{size} events in memory: {soon * 1e3:.1f} ms on the wall")
        for name, alone in _singly(rules):
            labeler = Labeler(alone)
            extra, base = cost(labeler.label(events)), cost(events.select(labeler.fields))
            print(f"{extra.cpu - base.cpu:8.1f}  {extra.wall - base.wall:8.1f}  beyond reading: {name}")


def _soon(labels: Labeler, events: pl.DataFrame) -> float:
    """Return the seconds to label a few events."""
    wall = time.perf_counter()
    labels.label_few(events)
    return time.perf_counter() - wall


def _singly(rules: RuleSet) -> list[tuple[str, RuleSet]]:
    """Return each proposition, and each slice key, as a separate rule set."""
    found: dict[str, RuleSet] = {}
    for rule in rules.rules:
        bare = replace(rule, for_each=None, steps=None)
        for name, predicate in rule.propositions.items():
            only = replace(bare, propositions={name: predicate})
            found.setdefault(f"{rule.pack}/{name}", RuleSet((only,), {}))
        if rule.for_each is not None:
            found[f"for_each of {rule.pack}/{rule.id}"] = RuleSet((_sliced(rule),), {})
    return list(found.items())


def _sliced(rule: Rule) -> Rule:
    """Return the rule with only the propositions of its `steps`."""
    from tracline.rules.model.formula import names

    used = frozenset() if rule.steps is None else names(rule.steps)
    return replace(rule, propositions={name: rule.propositions[name] for name in used})


def _spent(frame: pl.LazyFrame) -> Cost:
    """Return the seconds to compute the frame and discard it."""
    cpu, wall = time.process_time(), time.perf_counter()
    frame.sink_batches(lambda _batch: None, engine="streaming")
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


if __name__ == "__main__":
    main()
