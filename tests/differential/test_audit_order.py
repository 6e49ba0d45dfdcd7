"""Sessions that arrive in order are judged as they come, and the bundle is that of sorting everything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tracline.batch.audit import audit as auditing
from tracline.batch.audit import late_columns, row_order
from tracline.batch.audit.audit import audit
from tracline.batch.prepare import spill
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.report import choice
from tracline.rules.engine import kernel
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs, pack_text
from tracline.schemas.frames.events import EVENT_SCHEMA
from tracline.schemas.time import NS

from ..support.checker import refusal
from ..support.event_rows import call, session, user, write
from .test_audit import DAY, PACK, ROW, random_event

HOUR = 3600 * NS
SAME = ("verdicts.jsonl", "summary.json", "certificates.jsonl", "open.jsonl", "sessions.jsonl")
"""The files of a bundle that are equal byte by byte."""


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> RuleSet:
    """Return rules with and without slices, steps and restarts."""
    file = tmp_path_factory.mktemp("pack") / "shop.yaml"
    file.write_text(PACK)
    return load_packs([file])


def random_rows(random: Random, name: str) -> list[dict]:
    """Return the rows of a session in judged order: up to three occurrences, some with an `end` row."""
    rows: list[dict] = []
    seq, begin = 0, DAY + random.randrange(20 * 3600) * NS
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        agent = random.choice([None, "a", "b"])
        for at in range(random.randint(1, 9)):
            seq += 1
            row = {"session_id": name, "occurrence": begin, "time": begin + at * NS, "seq": seq}
            row |= {"event_id": f"{name}-{seq}", "agent": agent, "late": random.random() < 0.1}
            rows.append(row | {"history": random.random() < 0.1} | random_event(random)[0])
        if random.random() < 0.6:
            end = {key: rows[-1][key] for key in ("session_id", "occurrence", "time")}
            rows.append(end | {"seq": seq + 1, "kind": "end", "event_id": f"{name}-end{seq}"})
        begin = rows[-1]["time"] + random.choice([NS, HOUR, 3 * HOUR])
    return rows


def interleaved(random: Random, sessions: list[list[dict]]) -> list[dict]:
    """Return all rows in a random order that retains the order of each session."""
    turns = [number for number, rows in enumerate(sessions) for _ in rows]
    random.shuffle(turns)
    rest = [iter(rows) for rows in sessions]
    return [next(rest[number]) for number in turns]


def shuffled(random: Random, rows: list[dict]) -> list[dict]:
    """Return the rows of a session in any order."""
    return random.sample(rows, len(rows))


def repeated(random: Random, rows: list[dict]) -> list[dict]:
    """Return the rows of a session, some of them several times."""
    return [row for row in rows for _ in range(random.choice([1, 1, 2, 3]))]


def conflicting(random: Random, rows: list[dict]) -> list[dict]:
    """Return the rows of a session, and others that claim the place of one of them."""
    place = random.randrange(len(rows))
    claim = rows[place] | {"event_id": random.choice("!~") + rows[place]["event_id"], "text": "secret"}
    return [*rows[: place + 1], claim, *rows[place + 1 :]]


def ended_early(random: Random, rows: list[dict]) -> list[dict]:
    """Return the rows of a session with an `end` row anywhere, of any of its occurrences or of another."""
    row = random.choice(rows)
    end = row | {"kind": "end", "event_id": "end", "occurrence": row["occurrence"] + random.choice([0, 0, 1])}
    place = random.randrange(len(rows) + 1)
    return [*rows[:place], end, *rows[place:]]


def unchanged(_random: Random, rows: list[dict]) -> list[dict]:
    """Return the rows of a session as they are."""
    return rows


FORMS: list[Callable[[Random, list[dict]], list[dict]]] = [
    unchanged,
    shuffled,
    repeated,
    conflicting,
    ended_early,
]


def rows_in_order(rows: list[dict]) -> int:
    """Return the number of rows in sessions that need no sort, as plain Python sees it."""
    by_session: dict[str, list[dict]] = defaultdict(list)
    for row in rows:
        by_session[row["session_id"]].append(row)
    return sum(len(found) for found in by_session.values() if is_in_order(found))


def is_in_order(rows: list[dict]) -> bool:
    """Return whether places ascend, and the rows of an occurrence are some events and at most an end."""
    places = [(row["occurrence"], row["kind"] == "end") for row in rows]
    seqs = [(row["occurrence"], row["seq"]) for row in rows if row["kind"] != "end"]
    ends = [occurrence for occurrence, is_end in places if is_end]
    begun = {occurrence for occurrence, _ in seqs}
    return (
        places == sorted(places)
        and seqs == sorted(set(seqs))
        and len(ends) == len({*ends})
        and begun.issuperset(ends)
    )


@dataclass(frozen=True)
class WrittenRows:
    """A random archive, and the number of its rows that need no sort."""

    folder: Path
    in_order: int


def archive_of(
    random: Random, folder: Path, sessions: int, orderly: bool, as_of: int | None = None
) -> WrittenRows:
    """Write a random archive of a few files, whose rows are cut at random places."""
    written = []
    for number in range(sessions):
        rows = random_rows(random, f"s{number:02d}")
        written.append((unchanged if orderly else random.choice(FORMS))(random, rows))
    rows = interleaved(random, written)
    cuts = sorted(random.choices(range(len(rows) + 1), k=random.randint(0, 5)))
    schema = {name: EVENT_SCHEMA[name] for name in (*ROW, *MORE)}
    plain = {**schema, "time": pl.Int64, "occurrence": pl.Int64}
    folder.mkdir(parents=True)
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        filled = [
            {**{name: row.get(name) for name in schema}, "content": row.get("content") or "captured"}
            for row in rows[begin:end]
        ]
        frame = pl.DataFrame(filled, schema=plain)
        frame.cast({"time": schema["time"], "occurrence": schema["occurrence"]}).write_parquet(
            folder / f"{number}.parquet", row_group_size=random.choice([3, 100])
        )
    return WrittenRows(folder, rows_in_order([row for row in rows if as_of is None or row["time"] <= as_of]))


MORE = ("args", "error", "text", "tool", "agent", "late", "history")


def times(random: Random) -> int | None:
    """Return a time in the archive, or None."""
    return random.choice([None, DAY + random.randrange(30 * 3600) * NS])


@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 32), orderly=st.booleans())
@example(seed=1, orderly=True)
def test_sessions_in_order_are_judged_like_sorted_ones(
    tmp_path_factory: pytest.TempPathFactory, rules: RuleSet, seed: int, orderly: bool
) -> None:
    """In order, shuffled, repeated, in conflict, ended anywhere, cut into files and windows: the same bundle.

    The rows in order are exactly those that plain Python finds in order.
    """
    random = Random(seed)
    root = tmp_path_factory.mktemp("order")
    options = AuditOptions(
        since=times(random),
        until=times(random),
        as_of=times(random),
        satisfied=random.random() < 0.5,
        threads=random.choice([1, 2]),
        seed=random.randrange(1 << 53),
        with_text=random.random() < 0.5,
    )
    archive = archive_of(random, root / "archive", random.randint(5, 12), orderly, options.as_of)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spill, "BUCKET_ROWS", random.choice([5, 20]))
        patched.setattr(spill, "HELD_BYTES", random.choice([0, 2_000, 1 << 28]))
        patched.setattr(auditing, "FILE_ROWS_MIN", 0)
        patched.setattr(spill, "PASS_ROWS", random.choice([9, 25, 1000]))
        patched.setattr(late_columns, "ROWS_MAX", random.choice([1, 20, 1000]))
        drawn = random.choice([1, 3, 100])
        for module in (late_columns, choice):
            patched.setattr(module, "SAMPLE_MAX", drawn)
        patched.setattr(choice, "WORST_MAX", drawn)
        patched.setattr(kernel, "EVENTS_MAX", random.choice([5, 10_000]))
        patched.setattr(row_order, "DISORDERED_MAX", -1)
        assert audit(archive.folder, rules, root / "sorted", options).rows_in_order == 0
        patched.setattr(row_order, "DISORDERED_MAX", 1)
        found = audit(archive.folder, rules, root / "in order", options)
    assert found.rows_in_order == archive.in_order
    equal_bundles(root / "sorted", root / "in order")


def equal_bundles(left: Path, right: Path) -> None:
    """Assert that two bundles are equal."""
    for name in SAME:
        assert (left / name).read_bytes() == (right / name).read_bytes(), name
    typed = [pl.read_parquet(bundle / "verdicts.parquet") for bundle in (left, right)]
    assert typed[0].equals(typed[1])
    assert refusal(left) is None


def test_the_generated_archives_use_both_ways(
    tmp_path: Path, rules: RuleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive in order needs no sort at all, one of mixed sessions for some; both give many verdicts."""
    monkeypatch.setattr(spill, "BUCKET_ROWS", 5)
    monkeypatch.setattr(auditing, "FILE_ROWS_MIN", 0)
    monkeypatch.setattr(row_order, "DISORDERED_MAX", 1)
    orderly = archive_of(Random(1), tmp_path / "orderly", 25, True)
    result = audit(orderly.folder, rules, tmp_path / "1", AuditOptions())
    assert result.rows_in_order == orderly.in_order == result.summary["population"]["rows"] > 100
    mixed = archive_of(Random(2), tmp_path / "mixed", 25, False)
    result = audit(mixed.folder, rules, tmp_path / "2", AuditOptions())
    assert 20 < result.rows_in_order < result.summary["population"]["rows"] - 20
    for bundle in ("1", "2"):
        assert len((tmp_path / bundle / "verdicts.jsonl").read_text().splitlines()) > 50


def test_sessions_with_equal_hashes_are_sorted(
    tmp_path: Path, rules: RuleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions whose ids share a first hash never share a verdict: the second hash differs."""
    monkeypatch.setattr(spill, "BUCKET_ROWS", 5)
    monkeypatch.setattr(auditing, "FILE_ROWS_MIN", 0)
    archive = archive_of(Random(1), tmp_path / "archive", 10, True)
    audit(archive.folder, rules, tmp_path / "apart", AuditOptions())
    columns = row_order._columns

    def colliding(rows: pl.DataFrame, *rest: object) -> tuple:
        first, *others = columns(rows, *rest)
        return first % 3, *others

    monkeypatch.setattr(row_order, "_columns", colliding)
    monkeypatch.setattr(row_order, "DISORDERED_MAX", 1)
    result = audit(archive.folder, rules, tmp_path / "colliding", AuditOptions())
    assert result.rows_in_order == 0
    equal_bundles(tmp_path / "apart", tmp_path / "colliding")


@pytest.mark.parametrize(("limit", "value"), [("ROWS_HELD_MAX", 0), ("DISORDERED_MAX", 0.1)])
def test_too_much_disorder_sorts_everything(
    tmp_path: Path, rules: RuleSet, monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    """All sessions are sorted if most are out of order, or continue over many passes."""
    monkeypatch.setattr(spill, "BUCKET_ROWS", 5)
    monkeypatch.setattr(auditing, "FILE_ROWS_MIN", 0)
    monkeypatch.setattr(spill, "PASS_ROWS", 20)
    archive = archive_of(Random(2), tmp_path / "archive", 10, limit == "ROWS_HELD_MAX")
    monkeypatch.setattr(row_order, limit, value)
    assert audit(archive.folder, rules, tmp_path / "bundle", AuditOptions()).rows_in_order == 0


def test_many_small_files_are_sorted(tmp_path: Path, rules: RuleSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with few rows are opened once, and their sessions are sorted; larger ones are read in order."""
    monkeypatch.setattr(spill, "BUCKET_ROWS", 5)
    monkeypatch.setattr(row_order, "DISORDERED_MAX", 1)
    archive = archive_of(Random(1), tmp_path / "archive", 25, True)
    files = len(list(archive.folder.iterdir()))
    monkeypatch.setattr(auditing, "FILE_ROWS_MIN", archive.in_order // files + 1)
    assert audit(archive.folder, rules, tmp_path / "sorted", AuditOptions()).rows_in_order == 0
    monkeypatch.setattr(auditing, "FILE_ROWS_MIN", archive.in_order // files - 1)
    found = audit(archive.folder, rules, tmp_path / "in order", AuditOptions())
    assert found.rows_in_order == archive.in_order
    equal_bundles(tmp_path / "sorted", tmp_path / "in order")


def test_misspelt_tools_are_counted_alike_with_and_without_a_sort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of tools are counted while events are labelled, before any sort."""
    (tmp_path / "archive").mkdir()
    rows = [row for number in range(5) for row in session(f"s{number}", user("hi"), call("refund"))]
    write(tmp_path / "archive" / "a.parquet", rows)
    rules = pack_text("""
pack: desk
propositions:
  paid: kind == "tool_call" and tool == "refunt"
rules:
  - {id: unpaid, formula: always not paid}
""")
    by_sort = audit(tmp_path / "archive", rules, tmp_path / "sorted", AuditOptions())
    monkeypatch.setattr(auditing, "FILE_ROWS_MIN", 0)
    monkeypatch.setattr(spill, "BUCKET_ROWS", 1)
    as_they_come = audit(tmp_path / "archive", rules, tmp_path / "in order", AuditOptions())
    assert (by_sort.rows_in_order, as_they_come.rows_in_order) == (0, len(rows))
    assert by_sort.summary["never_true"] == as_they_come.summary["never_true"]
    assert by_sort.summary["never_true"][0]["suggestion"] == "did you mean `refund`, 5 calls?"
