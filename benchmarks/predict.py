"""The cost of a chain beside an audit: `PYTHONPATH=. python benchmarks/predict.py [EVENTS]`.

Reading, an audit, one that follows a chain, and learning go over the archive of `benchmarks/audit.py` by the
same 20 rules, each in a process of its own, in turns. All rules are followed, at a threshold that no risk
comes to: the synthetic sessions would cross any other at nearly every event.
Prints the processor time of all threads, the peak memory, and the ratios of the best rounds.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from audit import PACK, Clock, audit, read, write
from tracline.batch.prepare.options import ALLOCATOR, allocator_settings

EVENTS = 1_000_000
ROUNDS = 3
LEARN_MAX, FOLLOW_MAX, FOLLOW_READS_MAX = 1.5, 1.3, 0.4
"""Goals: learning and following beside an audit, and what following adds beside reading."""
ABOVE = 0.999999
"""The threshold of all rules: without held-out sessions the chain guarantees none."""


def main() -> None:
    """Run the benchmark and print its table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    with tempfile.TemporaryDirectory() as folder:
        archive, out = Path(folder) / "archive", Path(folder) / "bundle"
        write(archive, count)
        chain, again = Path(folder) / "chain", Path(folder) / "again"
        learned = measured("chain", archive, chain)
        found: dict[str, list[dict]] = {name: [] for name in STAGES if name != "chain"}
        for _ in range(ROUNDS):
            for name, results in found.items():
                results.append(measured(name, archive, again if name == "learn" else out, chain))
    best = {name: min(result["cpu_s"] for result in results) for name, results in found.items()}
    for name, results in found.items():
        peak = min(result["peak_mb"] for result in results)
        print(f"{name:>7}: {best[name]:6.1f} s of processors, {peak:5.0f} MB at most")
    followed = found["follow"][0]
    print(f"{learned['events']:,} events, {learned['rules']} rules, {learned['contexts']:,} contexts")
    print(f"{followed['rules']} rules followed, {followed['crossings']:,} crossings")
    more = best["follow"] - best["audit"]
    print(f"learning takes {best['learn'] / best['audit']:.2f} times an audit (at most {LEARN_MAX})")
    print(f"following takes {best['follow'] / best['audit']:.2f} times an audit (at most {FOLLOW_MAX})")
    print(f"following takes {more / best['read']:.2f} of reading more (at most {FOLLOW_READS_MAX})")


def measured(what: str, *paths: Path) -> dict:
    """Return the result of one stage in a separate process, with the settings of the commands."""
    env = {ALLOCATOR: allocator_settings(os.cpu_count() or 1), "OPENBLAS_NUM_THREADS": "1", **os.environ}
    run = subprocess.run(
        [sys.executable, __file__, what, *paths], check=True, stdout=subprocess.PIPE, env=env
    )
    return json.loads(run.stdout)


def learn(archive: Path, folder: Path, *_: Path, hold_out: float = 0.3) -> dict:
    """Learn the chain of the archive, and write it."""
    from tracline.batch.prediction.chain_folder import write_learned
    from tracline.batch.prediction.source_archive import source_archive
    from tracline.batch.prepare.options import AuditOptions
    from tracline.predict.counting.split import Split
    from tracline.predict.learning.learn import Learning
    from tracline.predict.learning.learn import learn as learned
    from tracline.rules.packs.load import load_packs

    options = AuditOptions(threads=os.cpu_count() or 1)
    with Clock() as clock, source_archive(str(archive), options) as sessions:
        chain = learned(sessions, load_packs([PACK]), Learning(split=Split(hold_out)))
        write_learned(folder, chain)
    contexts = sum(len(rule.counted.contexts) for rule in chain.rules)
    return {**clock.result, "events": chain.source.events, "rules": len(chain.rules), "contexts": contexts}


def follow(archive: Path, out: Path, folder: Path) -> dict:
    """Audit the archive, and follow the risks of the chain."""
    from tracline.batch.audit.audit import audit as run
    from tracline.batch.prepare.options import AuditOptions
    from tracline.predict.folder.load import load_chain
    from tracline.predict.following.followed_chain import followed_chain
    from tracline.rules.packs.load import load_packs

    # As the command does, and as the audit beside it.
    gc.set_threshold(100_000)
    with Clock() as clock:
        rule_set = load_packs([PACK])
        chain = followed_chain(load_chain(folder), rule_set, ABOVE)
        run(archive, rule_set, out, AuditOptions(threads=os.cpu_count() or 1), chain=chain)
    crossings = sum(1 for _ in (out / "risk.jsonl").open("rb"))
    return {**clock.result, "rules": len(chain.risks), "crossings": crossings}


STAGES = {
    "read": lambda archive, *_: read(archive),
    "audit": lambda archive, out, _: audit(archive, out),
    "follow": follow,
    "learn": learn,
    "chain": lambda archive, folder: learn(archive, folder, hold_out=0.0),
}

if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in STAGES:
        print(json.dumps(STAGES[sys.argv[1]](*map(Path, sys.argv[2:]))))
    else:
        main()
