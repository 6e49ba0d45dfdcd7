"""The cost of an audit, beside reading its columns and beside a naive interpreter.

`PYTHONPATH=. python benchmarks/audit.py [EVENTS]` (1,000,000 by default; `make bench EVENTS=10000000`: all)
writes synthetic events as Parquet to a temporary folder. Each measurement runs in a separate process:
wall-clock time, processor time of all threads, and peak memory. The naive interpreter (`naive.py`)
gets a small archive, and must find what the audit finds there.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tracline.batch.prepare.options import ALLOCATOR, allocator_settings

PACK = Path(__file__).with_name("retail.yaml")
NAIVE_EVENTS = 20_000
PARTS_MAX = 5_000
PART_EVENTS = 200
"""Small files, and the events of each."""
FILLER = "the order of a parcel was sent with care and will reach you on monday at noon"
FILLER_WORDS = 130
"""Words that make a tool's result longer, about 600 characters; a message gets 150 of them."""


def main() -> None:
    """Run the benchmark and print its table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        big, small, out = Path(folder) / "big", Path(folder) / "small", Path(folder) / "bundle"
        write(big, count)
        write(small, NAIVE_EVENTS)
        read = measured("read", big)
        audited = measured("audit", big, out)
        print(
            f"{audited['events']:,} events, 20 rules, 25 propositions, "
            f"{audited['findings']:,} findings, {audited['verdicts']:,} verdicts"
        )
        print(f"{audited['in_order']:,} rows were judged without a sort")
        for name, result in (("reading", read), ("the audit", audited)):
            wall, cpu, peak = (result[key] for key in ("wall_s", "cpu_s", "peak_mb"))
            print(f"{name:>10}: {wall:7.1f} s, {cpu:7.1f} s of processors, {peak:5.0f} MB at most")
        wall, cpu = (audited[key] / read[key] for key in ("wall_s", "cpu_s"))
        print(f"the audit takes {wall:.1f} times as long as reading ({cpu:.1f} of processor time)")
        naive = measured("naive", small)
        parts = Path(folder) / "parts"
        divide(big, parts)
        divided = measured("audit", parts, out)
        files = len(list(parts.iterdir()))
        each = 1e6 * divided["cpu_s"] / divided["events"]
        print(f"{files:,} files of {PART_EVENTS} events: {each:.1f} us of processors an event")
        assert naive["breaches"] == measured("audit", small, out)["breaches"], "the two do not agree"
        rate, naive_rate = (result["events"] / result["cpu_s"] for result in (audited, naive))
        print(
            f"per second of processor: the audit {rate:,.0f} events, the naive interpreter {naive_rate:,.0f}"
        )


def write(folder: Path, count: int) -> None:
    """Write an archive of that many events, with texts as long as in recorded logs and no two the same.

    The simulated messages are shorter and repeat, which would make reading them too cheap.
    """
    import numpy as np
    import polars as pl

    from tests.support.synthetic_events import synthetic_events

    folder.mkdir()
    random = np.random.default_rng(1)
    words = np.array(FILLER.split())
    filler = pl.Series([" ".join(random.choice(words, FILLER_WORDS)) for _ in range(10_000)])
    for number, chunk in enumerate(synthetic_events(count, seed=1)):
        picked = filler.gather(random.integers(0, len(filler), len(chunk)))
        longer = pl.Series(random.integers(10**8, 10**9, len(chunk))).cast(pl.String) + " " + picked
        more = chunk.with_columns(
            text=pl.col("text") + " " + longer.str.head(150),
            result=pl.when(pl.col("result").str.ends_with("}"))
            .then(pl.col("result").str.head(-1) + ', "note": "' + longer + '"}')
            .otherwise(pl.col("result")),
        )
        more.write_parquet(folder / f"{number:05d}.parquet", row_group_size=100_000)


def divide(folder: Path, parts: Path) -> None:
    """Write the first events of an archive as many small files."""
    import polars as pl

    parts.mkdir()
    events = pl.scan_parquet(sorted(folder.glob("*.parquet"))).head(PARTS_MAX * PART_EVENTS).collect()
    for number, chunk in enumerate(events.iter_slices(PART_EVENTS)):
        chunk.write_parquet(parts / f"{number:05d}.parquet")


def measured(what: str, *paths: Path) -> dict:
    """Return the result of one stage in a separate process, with the allocator's settings of an audit."""
    env = {ALLOCATOR: allocator_settings(os.cpu_count() or 1), **os.environ}
    run = subprocess.run(
        [sys.executable, __file__, what, *paths], check=True, stdout=subprocess.PIPE, env=env
    )
    return json.loads(run.stdout)


def read(folder: Path) -> dict:
    """Read the columns that the audit reads, and keep nothing."""
    import polars as pl
    from tracline.rules.engine.judge import JUDGED_COLUMNS
    from tracline.rules.labels.labeler import Labeler
    from tracline.rules.packs.load import load_packs

    fields = dict.fromkeys([*JUDGED_COLUMNS, *Labeler(load_packs([PACK])).fields])
    events = pl.scan_parquet(sorted(folder.glob("*.parquet"))).select(list(fields))
    with Clock() as clock:
        events.sink_batches(lambda _batch: None, engine="streaming")
    return clock.result


def audit(folder: Path, out: Path) -> dict:
    """Audit the archive."""
    from tracline.batch.audit.audit import audit as run
    from tracline.batch.prepare.options import AuditOptions
    from tracline.rules.packs.load import load_packs

    # As the command does.
    gc.set_threshold(100_000)
    with Clock() as clock:
        outcome = run(folder, load_packs([PACK]), out, AuditOptions(threads=os.cpu_count() or 1))
    rules = outcome.summary["rules"]
    breaches = {
        f"{key} {kind}": rule[kind] for key, rule in rules.items() for kind in ("violations", "unmet")
    }
    return {
        **clock.result,
        "events": outcome.summary["population"]["events"],
        "sessions": outcome.summary["population"]["sessions"],
        "findings": sum(breaches.values()),
        "verdicts": sum(1 for _ in (out / "verdicts.jsonl").open("rb")),
        "in_order": outcome.rows_in_order,
        "breaches": {name: count for name, count in sorted(breaches.items()) if count},
    }


def naive(folder: Path) -> dict:
    """Judge the archive by the naive interpreter."""
    import polars as pl
    from naive import judge
    from tracline.rules.packs.load import load_packs

    rules = load_packs([PACK]).rules
    with Clock() as clock:
        events = pl.read_parquet(folder).filter(pl.col("kind") != "end").sort("session_id", "seq")
        sessions = [part.to_dicts() for part in events.partition_by("session_id", maintain_order=True)]
        found = judge(rules, sessions)
    names = {"violated": "violations", "unmet": "unmet"}
    breaches = {
        f"{rule} {names[verdict]}": count for (rule, verdict), count in sorted(found.items()) if count
    }
    return {**clock.result, "events": len(events), "breaches": dict(sorted(breaches.items()))}


class Clock:
    """The wall-clock time, the processor time of all threads, and the peak memory of the process."""

    def __enter__(self) -> Clock:
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        self.result = {
            "wall_s": time.perf_counter() - self.wall,
            "cpu_s": time.process_time() - self.cpu,
            "peak_mb": int(status["VmHWM"].split()[0]) / 1000,
        }


STAGES = {"read": read, "audit": audit, "naive": naive}

if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in STAGES:
        print(json.dumps(STAGES[sys.argv[1]](*map(Path, sys.argv[2:]))))
    else:
        main()
