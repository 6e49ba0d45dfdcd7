"""Folders of files as people leave them: what is read of them, what is named, and that no order decides."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from tracline.archive.error import SourceError
from tracline.archive.manifest import MANIFEST
from tracline.batch.audit.audit import audit
from tracline.batch.importing.run import import_source
from tracline.batch.prepare import chat_frames as chatframe
from tracline.batch.prepare import spill
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population, discover
from tracline.batch.sources.event_files import FileSlice, reject_rows, row_count, scan, scan_slices
from tracline.cli import tracline
from tracline.rules.packs.load import load_packs

from ...support.event_rows import PACK


def chat(path: Path, *texts: str, own_id: str = "s") -> Path:
    """A chat log with a conversation of one question for each text, all with one id and no times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    talks = [{"id": own_id, "messages": [{"role": "user", "content": text}]} for text in texts]
    path.write_text(json.dumps(talks), encoding="utf-8")
    return path


def rejected(population: Population) -> list[tuple[str, str]]:
    """File and code of what was rejected."""
    return [(reject.file, reject.code) for reject in population.rejects]


def run(*words: str) -> tuple[int, str]:
    """Exit code and standard error of `tracline audit`."""
    result = CliRunner().invoke(tracline, ["audit", *words])
    return result.exit_code, result.stderr


@pytest.mark.slow
def test_a_bundle_inside_the_source_is_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit into the folder that it reads finds the same when run again, and reports what it skipped."""
    (tmp_path / "pack.yaml").write_text(PACK, encoding="utf-8")
    chat(tmp_path / "log.json", "hello!", "bye")
    monkeypatch.chdir(tmp_path)
    bundle = tmp_path / "bundle"
    seen: list[bytes] = []
    for _ in range(2):
        assert run(".", "--rules", "pack.yaml", "--out", "bundle") == (0, "")
        seen.append((bundle / "verdicts.jsonl").read_bytes())
    assert seen[0] == seen[1] != b""
    population = Population()
    assert [part.name for part in discover(".", population)] == ["log.json"]
    assert population.skipped == ["bundle/", "pack.yaml"]
    for source in ("**/*.parquet", "bundle"):
        with pytest.raises(SourceError, match="TRL401"):
            discover(source, Population())


def test_folders_that_are_not_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to a folder, and folders and files that may not be opened, are rejected."""
    source = tmp_path / "in"
    chat(source / "log.json", "a")
    chat(source / "closed" / "log.json", "b")
    chat(source / "secret.json", "c")
    chat(tmp_path / "elsewhere" / "log.json", "d")
    (source / "link").symlink_to(tmp_path / "elsewhere")
    (source / ".git").symlink_to(tmp_path / "elsewhere")
    scan, opened = os.scandir, Path.open

    def scandir(path: Any) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    def open_(self: Path, *words: Any, **more: Any) -> Any:
        if self.name == "secret.json":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *words, **more)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(Path, "open", open_)
    population = Population()
    assert [part.name for part in discover(source, population)] == ["log.json"]
    assert rejected(population) == [
        ("link", "source-link"),
        ("closed", "source-closed"),
        ("secret.json", "source-closed"),
    ]


def test_a_file_of_an_archive_that_was_replaced_is_an_error(tmp_path: Path) -> None:
    """Another size than the manifest's is TRL403, with both."""
    import_source(chat(tmp_path / "log.json", "a"), tmp_path / "out")
    (file,) = (tmp_path / "out").rglob("*.parquet")
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(SourceError, match=rf"{MANIFEST}: TRL403 .* has \d+ bytes instead of \d+"):
        discover(tmp_path / "out", Population())


@pytest.mark.slow
def test_unreadable_parquet_is_covered_by_allow_rejected(tmp_path: Path) -> None:
    """Each such file counts as one; the bundle is there either way, of what could be read."""
    (tmp_path / "pack.yaml").write_text(PACK, encoding="utf-8")
    source = tmp_path / "in"
    chat(source / "log.json", "hello!")
    (source / "junk.parquet").write_bytes(b"PAR1 and nothing of the sort")
    words = (str(source), "--rules", str(tmp_path / "pack.yaml"), "--out", str(tmp_path / "out"))
    code, error = run(*words)
    assert code == 2
    assert "junk.parquet: whole file: parquet: cannot be read as Parquet" in error
    assert "1 rejected, more than --allow-rejected 0" in error
    assert run(*words, "--allow-rejected", "1")[0] == 0
    assert b'"violated"' in (tmp_path / "out" / "verdicts.jsonl").read_bytes()


def candidates(random: Random) -> pl.DataFrame:
    """Rows of sessions that go on over several files, many at one time; some are `end` rows."""
    start = datetime(2026, 1, 1)
    rows = [
        {
            "session_id": f"c{random.randrange(30)}",
            "time": start + timedelta(seconds=random.randrange(9_000)),
            "kind": random.choice(["user", "assistant", "tool_call", "tool_result", "end"]),
            "text": random.choice(["hello!", "fine", None]),
            "call_id": random.choice(["x", "y", None]),
        }
        for _ in range(600)
    ]
    return pl.DataFrame(rows)


def verdicts(source: Path, out: Path, threads: int) -> bytes:
    """The lines of an audit by the tests' pack."""
    pack = source.parent / "pack.yaml"
    pack.write_text(PACK, encoding="utf-8")
    audit(source, load_packs([pack]), out, AuditOptions(satisfied=True, threads=threads))
    return (out / "verdicts.jsonl").read_bytes()


@pytest.mark.slow
def test_files_by_other_names_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates without ids over several files, and chat logs that share their ids, in any order of files
    and rows, in buckets and passes of any size.
    """
    random = Random(11)
    frame = candidates(random)
    talks = [[random.choice("abcdef!") for _ in range(6)] for _ in range(4)]
    seen: set[bytes] = set()
    for number in range(6):
        source = tmp_path / str(number) / "in"
        names = random.sample(range(100), 8)
        for name, texts in zip(names, random.sample(talks, 4), strict=False):
            chat(source / f"{name}.json", *texts)
        shuffled = frame.sample(fraction=1.0, shuffle=True, seed=number)
        for place, name in enumerate(names[4:]):
            shuffled[place::4].write_parquet(source / f"{name}.parquet")
        monkeypatch.setattr(spill, "BUCKET_ROWS", random.choice([40, 10_000]))
        monkeypatch.setattr(spill, "PASS_ROWS", random.choice([70, 10_000]))
        monkeypatch.setattr(chatframe, "FRAME_EVENTS_MAX", random.choice([3, 10_000]))
        seen.add(verdicts(source, tmp_path / str(number) / "out", threads=1 + number % 2))
    assert len(seen) == 1
    text = seen.pop().decode()
    assert text.count("\n") >= 500
    assert '"session_id":"s~' in text


@pytest.mark.slow
def test_slices_of_many_files_have_the_rows_of_each_file(tmp_path: Path) -> None:
    """Files that are read alike share a scan; others, and parts of a file, are read in their turn."""
    frame = pl.DataFrame({"session_id": ["a", "b", None], "time": [1, 2, 3], "kind": ["user", "end", "user"]})
    frame = frame.with_columns(pl.col("time").cast(pl.Datetime("ns", "UTC")), seq=pl.Series([1, 2, 3]))
    forms = [
        frame.head(2),
        frame,
        frame.with_columns(pl.col("seq").cast(pl.UInt32)).head(2),
        frame.with_columns(pl.col("seq").cast(pl.UInt32) - 1),
        frame.head(0),
        frame.drop("seq").with_columns(text=pl.lit("hi")),
        frame.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC"))),
    ]
    order = [0, 0, 0, 1, 1, 2, 2, 3, 4, 4, 0, 5, 5, 6, 2, 0]
    for number, form in enumerate(order):
        forms[form].write_parquet(tmp_path / f"{number:02d}.parquet")
    parts = discover(tmp_path, Population())
    whole = [FileSlice(part, 0, row_count(part)) for part in parts]
    expected = pl.concat([scan(part) for part in parts]).collect()
    assert scan_slices(whole, {}).collect().equals(expected)
    halves = [FileSlice(part, first, 1) for part in parts for first in range(row_count(part))]
    assert scan_slices(halves, {}).collect().equals(expected)
    population = Population()
    for part in parts:
        reject_rows(part, population)
    bad = {0: 0, 1: 1, 2: 0, 3: 2, 4: 0, 5: 1, 6: 1}
    assert population.rejected.total() == sum(bad[form] for form in order)
    assert len(expected) == population.rows - population.rejected.total()
