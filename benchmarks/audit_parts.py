"""The processor time of an audit, by part: `PYTHONPATH=. python benchmarks/audit_parts.py [EVENTS]`.

Writes synthetic events (3,000,000 by default), once as large files and once, at most 1,000,000 of them, as
files of 200 events. Audits both on one thread in this process, and prints the processor time of each part,
beside that of only reading the columns in another process. Parts that another part calls count once.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from audit import PACK, divide, measured, write
from tracline.batch.audit import audit as auditing
from tracline.batch.audit import draft, in_order, row_order
from tracline.batch.audit.late_columns import LateColumns
from tracline.batch.audit.summary import AuditTally
from tracline.batch.evidence.certificates import Certificates
from tracline.batch.prepare import buckets, prepare, spill
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.report.choice import SessionChoice
from tracline.batch.sources import event_files, parquet_footer
from tracline.rules.packs.load import load_packs

EVIDENCE: tuple[tuple[Any, str, str], ...] = (
    (draft, "input_lines", "digests of the input"),
    (Certificates, "add", "certificates"),
    (Certificates, "write", "certificates"),
    (SessionChoice, "add", "choosing sessions"),
    (row_order, "draw_numbers", "choosing sessions"),
    (draft, "write_sessions", "drawn sessions"),
    (draft, "write_report", "the report"),
)
"""The functions that write the evidence beside the verdicts."""
PARTS: tuple[tuple[Any, str, str], ...] = (
    *EVIDENCE,
    (prepare, "discover", "finding the files"),
    (event_files, "footer_of", "reading footers"),
    (prepare, "reject_rows", "checking rows"),
    (auditing, "compile_rule_set", "compiling the rules"),
    (row_order, "_order_columns", "reading the columns of the order"),
    (row_order._Numbering, "add", "numbering occurrences, checking the order"),
    (in_order, "_labelled", "reading and labelling"),
    (buckets, "_labels", "reading and labelling"),
    (spill, "write_buckets", "writing buckets"),
    (in_order, "judge_sessions", "stepping the machines"),
    (auditing, "judge", "sorting, stepping the machines"),
    (AuditTally, "count", "counting"),
    (LateColumns, "at", "reading the columns of verdicts"),
    (auditing._Auditing, "_explain", "records with witnesses"),
    (draft.BundleDraft, "write_verdicts", "writing verdicts"),
    (draft.bundle, "write_typed", "writing verdicts"),
)
"""The functions that are measured, and the name of the part of each."""


def main() -> None:
    """Run the benchmark and print its tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000
    # As the command does.
    gc.set_threshold(100_000)
    with tempfile.TemporaryDirectory() as folder:
        large, small, out = Path(folder) / "large", Path(folder) / "small", Path(folder) / "bundle"
        write(large, count)
        divide(large, small)
        spent = Counter[str]()
        measure(PARTS, spent)
        for archive in (large, small):
            # The first audit of a process loads compiled code.
            for _ in range(2):
                spent.clear()
                parquet_footer.footer_of.cache_clear()
                total = timed(auditing.audit, "everything else", spent)
                found = total(archive, load_packs([PACK]), out, AuditOptions())
            show(spent, found.summary["population"]["events"], archive)


def measure(parts: Iterable[tuple[Any, str, str]], spent: Counter[str]) -> None:
    """Replace the functions by those that add their processor time to `spent`."""
    for place, name, part in parts:
        setattr(place, name, timed(getattr(place, name), part, spent))


def show(spent: Counter[str], events: int, archive: Path) -> None:
    """Print the parts of an audit, the longest first."""
    read = measured("read", archive)["cpu_s"]
    print(f"{events:,} events, {len(list(archive.iterdir())):,} files")
    for part, seconds in [*spent.most_common(), ("all", spent.total()), ("only reading the columns", read)]:
        print(f"{part:42} {1e9 * seconds / events:7,.0f} ns an event {seconds / read:6.2f} of reading")


_inner: list[float] = []
"""The time of the measured functions that each running measured function has called."""


def timed(function: Callable[..., Any], part: str, spent: Counter[str]) -> Callable[..., Any]:
    """Return a function that adds its processor time, without that of inner parts, to `spent`."""

    def measuring(*args: Any, **named: Any) -> Any:
        begun = time.process_time()
        _inner.append(0)
        try:
            return function(*args, **named)
        finally:
            whole = time.process_time() - begun
            spent[part] += whole - _inner.pop()
            if _inner:
                _inner[-1] += whole

    return measuring


if __name__ == "__main__":
    main()
