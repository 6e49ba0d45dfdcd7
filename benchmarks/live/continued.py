"""The cost of an event in a long session: `python benchmarks/live/continued.py [SESSIONS]`.

Judges sessions of 100 and of 5,000 simulated events, and then batches with a few further events of each
session, each from what the batch before carried, and encodes the records that a monitor writes. Prints
processor time and bytes of state written, by event, and the ratio of the long sessions to the short ones.
Once by the shipped packs, and once without the rules that slice sessions. The state of session assembly is
not a part of it.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from statistics import median

import numpy as np
import polars as pl
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.rules.engine.judge import JUDGED_COLUMNS, CompiledRules, compile_rule_set, label_columns
from tracline.rules.incremental.carried import Carried
from tracline.rules.incremental.carry_layout import CarryLayout
from tracline.rules.incremental.continue_judging import continue_judging
from tracline.rules.labels.missing import MISSING, NOTHING
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.stream.messages.monitor_state import encode_session
from tracline.stream.messages.session_state import JudgingState, SessionState

LENGTHS = (100, 5_000)
BATCHES, EVENTS = 40, 2
"""Batches that are measured, and events of each session in a batch."""
FIRST_EVENTS = 20
"""Events of each session in a batch before."""
BYTES_MAX = 1 << 20


def main() -> None:
    """Run the benchmark and print its table."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    packs = load_packs(shipped_packs())
    unsliced = replace(packs, rules=tuple(rule for rule in packs.rules if rule.for_each is None))
    print("rules | events a session | us an event | bytes of state an event | slices | classes")
    for name, rule_set in (("shipped", packs), ("without slices", unsliced)):
        short, long = measured(name, rule_set, sessions)
        ratios = [high / low for low, high in zip(short, long, strict=True)]
        print(f"{name}: {LENGTHS[1]:,} over {LENGTHS[0]}: time {ratios[0]:.2f}, bytes {ratios[1]:.2f}")


def measured(name: str, rule_set: RuleSet, sessions: int) -> list[tuple[float, float]]:
    """Return microseconds and bytes of state by event in sessions of each length.

    The lengths take turns, batch by batch, and the time is the median of all batches.
    """
    compiled = compile_rule_set(rule_set)
    layout, found = CarryLayout(compiled), list[tuple[float, float]]()
    rows = labelled(compiled, LENGTHS[-1] + BATCHES * EVENTS)
    carried: list[dict[str, Carried]] = [{} for _ in LENGTHS]
    for length, states in zip(LENGTHS, carried, strict=True):
        for begin in range(0, length, FIRST_EVENTS):
            judged(layout, states, batch(rows, sessions, begin, min(FIRST_EVENTS, length - begin)), begin)
    seconds, written = [[0.0] * BATCHES for _ in LENGTHS], [0 for _ in LENGTHS]
    for number in range(BATCHES):
        for i, (length, states) in enumerate(zip(LENGTHS, carried, strict=True)):
            place = length + number * EVENTS
            events = batch(rows, sessions, place, EVENTS)
            start = time.process_time()
            written[i] += judged(layout, states, events, place)
            seconds[i][number] = time.process_time() - start
    for length, states, times, count in zip(LENGTHS, carried, seconds, written, strict=True):
        found.append((median(times) / (EVENTS * sessions), count / (BATCHES * EVENTS * sessions)))
        classes = next(iter(states.values())).sliced.classes.values()
        slices = sum(each.members for each in classes)
        figures = f"{found[-1][0] * 1e6:.1f} | {found[-1][1]:,.0f} | {slices:,} | {len(classes)}"
        print(f"{name} | {length:,} | {figures}")
    return found


def judged(layout: CarryLayout, carried: dict[str, Carried], rows: pl.DataFrame, offset: int) -> int:
    """Judge a batch, change what is carried, and return the number of bytes that a monitor writes."""
    done = continue_judging(layout, carried, rows, np.zeros(len(rows), dtype=np.int64), satisfied=False)
    written = 0
    for session, after in done.carried.items():
        assert after is not None
        carried[session] = after
        state = SessionState(SessionAssembler(session, 1), JudgingState("", 0, after))
        record, chunks, pages = encode_session(state, offset, 0, BYTES_MAX)
        written += len(record) + sum(map(len, chunks)) + sum(len(page) for _, page in pages)
    return written


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
