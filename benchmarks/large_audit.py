"""The memory and the cost of audits of very many events.

`PYTHONPATH=. python benchmarks/large_audit.py [EVENTS [FOLDER]]` (3,000,000 by default, which shows little;
100,000,000 take 7.7 GB of disk) writes 1,000,000 synthetic events, and copies of them with other session ids
and later times: texts and event ids repeat, sessions do not. It audits a tenth of the files, three tenths and
all, each in a separate process, and prints the processor time an event, the wall-clock time over it, the peak
memory, and the rows that needed no sort. The archive is written to FOLDER, a temporary folder by default, and
is deleted at the end.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import polars as pl
from audit import measured, write

BASE_EVENTS = 1_000_000
SPAN = pl.duration(days=31)
"""The time by which each copy is later than the one before it; the conversations of a copy take 30 days."""
SHARES = (0.1, 0.3, 1)
ROW_GROUP = 100_000


def main() -> None:
    """Run the benchmark and print its table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        base, archive = Path(folder) / "base", Path(folder) / "archive"
        write(base, BASE_EVENTS)
        repeat(base, archive, -(-count // BASE_EVENTS))
        names = ("events", "sessions", "verdicts", "rows in order", "us of processors an event")
        print(*names, "wall over it", "MB at most", sep=" | ")
        for share in SHARES:
            print(audited(archive, share, Path(folder)), flush=True)


def repeat(base: Path, archive: Path, copies: int) -> None:
    """Write an archive that repeats the files of another with other sessions and times."""
    archive.mkdir()
    for file in sorted(base.iterdir()):
        rows = pl.read_parquet(file)
        for number in range(copies):
            later = pl.col("time", "occurrence") + number * SPAN
            name = pl.format("copy-{}-{}", pl.lit(f"{number:05d}"), "session_id").alias("session_id")
            path = archive / f"{number:05d}-{file.name}"
            # Level 1 takes four fifths of the time of the default level, and 3 % more disk.
            rows.with_columns(name, later).write_parquet(path, compression_level=1, row_group_size=ROW_GROUP)


def audited(archive: Path, share: float, folder: Path) -> str:
    """Return a line of the table, for the first files of an archive."""
    files = sorted(archive.iterdir())
    part = folder / f"share-{share}"
    part.mkdir()
    for file in files[: max(1, round(share * len(files)))]:
        (part / file.name).hardlink_to(file)
    found = measured("audit", part, folder / "bundle")
    each = 1e6 * found["cpu_s"] / found["events"]
    return " | ".join(
        (
            f"{found['events']:,}",
            f"{found['sessions']:,}",
            f"{found['verdicts']:,}",
            f"{found['in_order']:,}",
            f"{each:.2f}",
            f"{found['wall_s'] / found['cpu_s']:.2f}",
            f"{found['peak_mb']:,.0f}",
        )
    )


if __name__ == "__main__":
    main()
