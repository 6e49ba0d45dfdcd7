"""The cost of learning a chain beside an audit: `PYTHONPATH=. python benchmarks/predict.py [EVENTS]`.

Both read the archive of `benchmarks/audit.py` by the same 20 rules, each in a process of its own, in turns.
Prints the processor time of all threads, the peak memory, and the ratio of the best rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from audit import PACK, Clock, audit, write
from tracline.batch.prepare.options import ALLOCATOR, allocator_settings

EVENTS = 1_000_000
ROUNDS = 3
GOAL = 1.5


def main() -> None:
    """Run the benchmark and print its table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    with tempfile.TemporaryDirectory() as folder:
        archive, out = Path(folder) / "archive", Path(folder) / "bundle"
        write(archive, count)
        found: dict[str, list[dict]] = {"audit": [], "learn": []}
        for _ in range(ROUNDS):
            for name, results in found.items():
                results.append(measured(name, archive, out))
    for name, results in found.items():
        best = min(results, key=lambda result: result["cpu_s"])
        print(f"{name:>6}: {best['cpu_s']:6.1f} s of processors, {best['peak_mb']:5.0f} MB at most")
    best = {name: min(result["cpu_s"] for result in results) for name, results in found.items()}
    learned = found["learn"][0]
    print(f"{learned['events']:,} events, {learned['rules']} rules, {learned['contexts']:,} contexts")
    print(f"learning takes {best['learn'] / best['audit']:.2f} times an audit (goal: at most {GOAL})")


def measured(what: str, *paths: Path) -> dict:
    """Return the result of one stage in a separate process, with the allocator's settings of an audit."""
    env = {ALLOCATOR: allocator_settings(os.cpu_count() or 1), **os.environ}
    run = subprocess.run(
        [sys.executable, __file__, what, *paths], check=True, stdout=subprocess.PIPE, env=env
    )
    return json.loads(run.stdout)


def learn(archive: Path, _out: Path) -> dict:
    """Learn the chain of the archive."""
    from tracline.batch.prediction.source_archive import source_archive
    from tracline.batch.prepare.options import AuditOptions
    from tracline.predict.learning.learn import learn as learned
    from tracline.rules.packs.load import load_packs

    options = AuditOptions(threads=os.cpu_count() or 1)
    with Clock() as clock, source_archive(str(archive), options) as sessions:
        chain = learned(sessions, load_packs([PACK]))
    contexts = sum(len(rule.counted.contexts) for rule in chain.rules)
    return {**clock.result, "events": chain.source.events, "rules": len(chain.rules), "contexts": contexts}


STAGES = {"audit": audit, "learn": learn}

if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in STAGES:
        print(json.dumps(STAGES[sys.argv[1]](*map(Path, sys.argv[2:]))))
    else:
        main()
