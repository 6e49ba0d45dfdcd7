"""The share of evidence in the processor time of an audit.

`PYTHONPATH=.:benchmarks python benchmarks/evidence/share.py [EVENTS]` (1,000,000 by default) audits synthetic
events on one thread, and prints the processor time of each part of the evidence: the digests of the input,
certificates, drawn sessions and the report. Of several audits the one with the median share counts.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from audit import PACK, write
from audit_parts import EVIDENCE, measure, timed
from tracline.batch.audit import audit as auditing
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import load_packs

ROUNDS = 3
REST = "the verdicts"


def main() -> None:
    """Run the benchmark and print its table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    spent = Counter[str]()
    measure(EVIDENCE, spent)
    with tempfile.TemporaryDirectory() as folder:
        archive, out = Path(folder) / "archive", Path(folder) / "bundle"
        write(archive, count)
        rounds: list[Counter[str]] = []
        # The first audit of a process loads compiled code.
        for _ in range(ROUNDS + 1):
            spent.clear()
            timed(auditing.audit, REST, spent)(archive, load_packs([PACK]), out, AuditOptions())
            rounds.append(spent.copy())
    found = sorted(rounds[1:], key=share)[ROUNDS // 2]
    for part, seconds in found.most_common():
        print(f"{part:24} {seconds:6.2f} s")
    shares = ", ".join(f"{share(each):.1%}" for each in rounds[1:])
    print(f"{count:,} events: evidence takes {share(found):.1%} of the audit ({shares})")


def share(spent: Counter[str]) -> float:
    """Return the share of the evidence in the whole audit."""
    return 1 - spent[REST] / spent.total()


if __name__ == "__main__":
    main()
