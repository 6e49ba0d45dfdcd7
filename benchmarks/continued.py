"""The cost of an event in a long session: `python benchmarks/continued.py [SESSIONS]`.

Judges sessions of 100 and of 5,000 simulated events, and then batches with a few further events of each
session, from carried state that is decoded before each batch and encoded after it. Prints processor time and
bytes of state written, by event, and the ratio of the long sessions to the short ones. Once by the shipped
packs, and once without the rules that slice sessions: their slices are a part of the state.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.rules.engine.judge import JUDGED_COLUMNS, CompiledRules, compile_rule_set, label_columns
from tracline.rules.incremental.carried import decode_carried, encode_carried
from tracline.rules.incremental.carry_layout import CarryLayout
from tracline.rules.incremental.continue_judging import continue_judging
from tracline.rules.labels.missing import MISSING, NOTHING
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs, shipped_packs

LENGTHS = (100, 5_000)
BATCHES, EVENTS = 20, 2
"""Batches that are measured, and events of each session in a batch."""


def main() -> None:
    """Run the benchmark and print its table."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    packs = load_packs(shipped_packs())
    unsliced = replace(packs, rules=tuple(rule for rule in packs.rules if rule.for_each is None))
    print("rules | events a session | us an event | bytes of state an event | slices a session")
    for name, rule_set in (("shipped", packs), ("without slices", unsliced)):
        costs = [measured(name, rule_set, sessions, length) for length in LENGTHS]
        ratios = [long / short for short, long in zip(*costs, strict=True)]
        print(f"{name}: {LENGTHS[1]:,} over {LENGTHS[0]}: time {ratios[0]:.2f}, bytes {ratios[1]:.2f}")


def measured(name: str, rule_set: RuleSet, sessions: int, length: int) -> tuple[float, float]:
    """Return microseconds and bytes of state by event in sessions of that length."""
    compiled = compile_rule_set(rule_set)
    layout = CarryLayout(compiled)
    rows = labelled(compiled, length + BATCHES * EVENTS)
    carried = judged(layout, {}, batch(rows, sessions, 0, length))
    for place in range(2):
        carried = judged(layout, carried, batch(rows, sessions, length + place * EVENTS, EVENTS))
    start, written = time.process_time(), 0
    for place in range(2, BATCHES):
        carried = judged(layout, carried, batch(rows, sessions, length + place * EVENTS, EVENTS))
        written += sum(map(len, carried.values()))
    events = (BATCHES - 2) * EVENTS * sessions
    seconds = time.process_time() - start
    slices = sum(map(len, msgspec.msgpack.decode(next(iter(carried.values())), type=Carried).slices))
    print(f"{name} | {length:,} | {seconds / events * 1e6:.1f} | {written / events:,.0f} | {slices:,}")
    return seconds / events, written / events


def judged(layout: CarryLayout, carried: dict[str, bytes], rows: pl.DataFrame) -> dict[str, bytes]:
    """Judge a batch from encoded states, and return the encoded states after it."""
    states = {session: decode_carried(data) for session, data in carried.items()}
    done = continue_judging(layout, states, rows, np.zeros(len(rows), dtype=np.int64), satisfied=False)
    return {session: encode_carried(state) for session, state in done.carried.items()}


def labelled(compiled: CompiledRules, count: int) -> pl.DataFrame:
    """Return so many labelled events of simulated conversations, as one session."""
    events = event_frame(conversations(Desk(sessions=count // 10, seed=1)))
    rows = compiled.labeler.label(events.lazy(), keep=JUDGED_COLUMNS).collect()
    rows = rows.filter(pl.col("kind") != "end").head(count)
    assert len(rows) == count
    columns = rows.select(*JUDGED_COLUMNS, *label_columns(compiled)).with_columns(NOTHING)
    seq = pl.int_range(1, count + 1, dtype=pl.UInt32).alias("seq")
    return columns.with_columns(seq, pl.lit(0).cast(columns.schema["occurrence"]).alias("occurrence"))


def batch(rows: pl.DataFrame, sessions: int, begin: int, count: int) -> pl.DataFrame:
    """Return some of the rows in each of the sessions."""
    part = rows.slice(begin, count)
    assert MISSING in part.columns
    return pl.concat([part.with_columns(pl.lit(f"s{i}").alias("session_id")) for i in range(sessions)])


if __name__ == "__main__":
    main()
