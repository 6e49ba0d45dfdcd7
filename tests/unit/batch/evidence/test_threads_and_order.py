"""A bundle of two threads is verified and performed again by one, with the files listed in another order."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ....support.event_rows import PACK, START, call, result, session, user, write

pytestmark = pytest.mark.slow

DAY = 86_400 * 10**9
REVERSED = """
import os, sys
listed = os.walk
def walk(top, *args, **more):
    for folder, folders, files in listed(top, *args, **more):
        yield folder, folders, sorted(files, reverse=True)
os.walk = walk
from tracline.cli import tracline
import polars
assert polars.thread_pool_size() == 1
tracline(sys.argv[1:])
"""
TWO = """
import sys
from tracline.cli import tracline
import polars
assert polars.thread_pool_size() == 2
tracline(sys.argv[1:])
"""


def run(program: str, threads: int, folder: Path, line: str) -> None:
    """Run a command in a process of its own with so many threads of Polars."""
    words = [sys.executable, "-c", program, *line.split()]
    env = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_another_machine_gives_the_same_bytes(tmp_path: Path) -> None:
    """Sessions lie across files; the third party has a copy of the archive, made in another order."""
    rows = [
        row
        for number in range(200)
        for row in session(
            f"s{number}", user("well!"), call("pay"), result(), user("so"), start=START + number * DAY // 60
        )
    ]
    for part in range(8):
        write(
            tmp_path / "archive" / f"{part}.parquet", [row for at, row in enumerate(rows) if at % 8 == part]
        )
    (tmp_path / "desk.yaml").write_text(PACK)
    run(TWO, 2, tmp_path, "keys new key")
    run(TWO, 2, tmp_path, "audit archive --rules desk.yaml --out bundle --key key --threads 2 --quiet")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "files").mkdir(parents=True)
    for part in reversed(range(8)):
        shutil.copy(tmp_path / "archive" / f"{part}.parquet", elsewhere / "files")
    shutil.copytree(tmp_path / "bundle", elsewhere / "bundle")
    shutil.copy(tmp_path / "key.pub", elsewhere)
    run(REVERSED, 1, elsewhere, "verify bundle --key key.pub --archive files --rerun")
    run(REVERSED, 1, elsewhere, "audit files --rules bundle/rules --out again --threads 1 --quiet")
    for name in ("verdicts.jsonl", "summary.json", "certificates.jsonl", "inputs.jsonl", "sessions.jsonl"):
        assert (elsewhere / "again" / name).read_bytes() == (tmp_path / "bundle" / name).read_bytes(), name
