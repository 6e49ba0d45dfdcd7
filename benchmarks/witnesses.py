"""The cost of verdict records with their witnesses: `python benchmarks/witnesses.py [EVENTS]`.

Cuts simulated conversations into sessions of equal lengths, so that obligations break often, judges them by
the shipped packs, and makes the records of all findings. Prints processor time a verdict, and beside it that
of the replay alone.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.rules.engine.judge import JUDGED_COLUMNS, CompiledRules, Judged, compile_rule_set, judge
from tracline.rules.engine.records import records
from tracline.rules.engine.sessions import Clock
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.records.verdict_record import encode_verdict

LENGTHS = (3, 30, 1_000, 10_000)
ROUNDS = 3


def main() -> None:
    """Run the benchmark and print its table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    compiled = compile_rule_set(load_packs(shipped_packs()))
    events = event_frame(conversations(Desk(sessions=count // 15, seed=1)))[:count]
    labelled = compiled.labeler.label(events.lazy(), keep=JUDGED_COLUMNS).collect()
    print("events a session | events | verdicts | us a verdict | of it the line of JSON")
    for length in LENGTHS:
        judged = judge(compiled, cut(labelled, length), Clock(last=1 << 62, idle=0), satisfied=False)
        found = list(records(compiled, judged))
        seconds = min(seconds_of(compiled, judged) for _ in range(ROUNDS))
        start = time.process_time()
        for record in found:
            encode_verdict(record)
        lines = time.process_time() - start
        shown = f"{seconds / len(found) * 1e6:12.1f} | {lines / len(found) * 1e6:.1f}"
        print(f"{length:16,} | {len(labelled):,} | {len(found):8,} | {shown}")


def cut(labelled: pl.DataFrame, length: int) -> pl.DataFrame:
    """Return the events as sessions of that length."""
    rows = labelled.filter(pl.col("kind") != "end")
    numbers = np.arange(len(rows))
    ids = pl.Series("session_id", [f"session-{number // length:06d}" for number in numbers.tolist()])
    times = pl.Series("time", numbers * 1_000_000_000).cast(labelled.schema["time"])
    begins = pl.Series("occurrence", numbers // length * length * 1_000_000_000)
    seqs = pl.Series("seq", numbers % length + 1).cast(pl.UInt32)
    return rows.with_columns(ids, times, begins.cast(labelled.schema["occurrence"]), seqs)


def seconds_of(compiled: CompiledRules, judged: Judged) -> float:
    """Return the processor time of making all records."""
    start = time.process_time()
    for _ in records(compiled, judged):
        pass
    return time.process_time() - start


if __name__ == "__main__":
    main()
