"""The choice of the sessions that a report draws: the worst ones, and a seeded sample of clean ones."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.report.draw_numbers import draw_numbers
from tracline.cli import tracline
from tracline.rules.packs.load import pack_text
from tracline.schemas.time import parse_time
from tracline.schemas.verdict import Severity

from ...support.event_rows import PACK, call, result, session, user, write
from ...support.evidence.bundle_lines import bundle_lines

pytestmark = pytest.mark.slow

WORD = (1 << 64) - 1
DAY = 86_400 * 10**9


def mixed(value: int) -> int:
    """Return the last steps of MurmurHash3."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & WORD
    return value ^ value >> 33


def number(name: str, occurrence: int, seed: int) -> int:
    """Return the number of a session in plain Python: FNV-1a over its id, then its occurrence, mixed."""
    value = 0xCBF29CE484222325 ^ mixed(seed & WORD)
    for byte in (*name.encode(), occurrence & WORD):
        value = (value ^ byte) * 0x100000001B3 & WORD
    return mixed(value)


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(), st.integers(-(1 << 62), 1 << 62))), st.integers())
def test_numbers_are_those_of_plain_python(found: list[tuple[str, int]], seed: int) -> None:
    """For any ids, also empty and outside of ASCII, any times and any seed."""
    ids = pl.Series([name for name, _ in found], dtype=pl.String)
    times = pl.Series([time for _, time in found], dtype=pl.Int64)
    wanted = [number(name, time, seed) for name, time in found]
    assert draw_numbers(ids, times.to_numpy(), seed).tolist() == wanted


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of which some break one rule, some two, some the same one several times, and many none."""
    folder = tmp_path_factory.mktemp("choice") / "archive"
    rows: list[dict] = []
    for at in range(120):
        events = [user("no!" if at % 5 == 0 else "a"), *[call("pay", f"c{n}") for n in range(at % 4)]]
        rows += session(f"s{at:03}", *events, *[result()] * (at % 3), start=DAY * (20_000 + at))
    write(folder / "events.parquet", rows)
    return folder


@pytest.mark.parametrize("seed", [0, 1, (1 << 53) - 1])
def test_the_worst_and_the_least_numbers_are_chosen(archive: Path, tmp_path: Path, seed: int) -> None:
    """The bundle's own verdicts and population decide; a plain sort finds the same sessions."""
    bundle = tmp_path / "bundle"
    audit(archive, pack_text(PACK), bundle, AuditOptions(seed=seed))
    broken: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for line in (bundle / "verdicts.jsonl").read_text().splitlines():
        verdict = json.loads(line)
        if verdict["verdict"] in ("violated", "unmet"):
            broken[verdict["session_id"], verdict["occurrence"]].append(verdict)
    ranked = sorted(broken, key=lambda place: (*badness(broken[place]), *place))
    rows = pl.read_parquet(archive).filter(pl.col("seq") == 1).select("session_id", "occurrence")
    places = [
        (name, time) for name, time in rows.with_columns(pl.col("occurrence").to_physical()).iter_rows()
    ]
    broken_ids = {name for name, _ in broken}
    clean = sorted((number(name, time, seed), name) for name, time in places if name not in broken_ids)
    lines = bundle_lines(bundle, "sessions.jsonl")
    chosen = {
        why: {line["session_id"] for line in lines if line["why"] == why} for why in ("worst", "sample")
    }
    assert len(ranked) > 12
    assert chosen["worst"] == {name for name, _ in ranked[:12]}
    assert chosen["sample"] == {name for _, name in clean[:6]}


def badness(verdicts: list[dict]) -> tuple[int, int, int]:
    """Return a key that sorts the worst first: severity, broken rules, verdicts."""
    rank = max(list(Severity).index(verdict["severity"]) for verdict in verdicts)
    return -rank, -len({verdict["rule"] for verdict in verdicts}), -len(verdicts)


def test_a_window_has_its_own_sample(archive: Path, tmp_path: Path) -> None:
    """Sessions with an event in the window are drawn, however few."""
    since = DAY * 20_100
    audit(archive, pack_text(PACK), tmp_path / "bundle", AuditOptions(since=since))
    lines = bundle_lines(tmp_path / "bundle", "sessions.jsonl")
    assert sum(line["why"] == "sample" for line in lines) == 6
    assert all(parse_time(line["occurrence"]) >= since for line in lines)


def test_a_seed_that_a_bundle_cannot_state_is_refused(archive: Path, tmp_path: Path) -> None:
    """Canonical JSON has integers below 2**53; the audit does not begin."""
    words = ["audit", str(archive), "--rules", "tool-hygiene", "--out", str(tmp_path / "bundle"), "-q"]
    assert CliRunner().invoke(tracline, [*words, "--seed", str(-(1 << 53) + 1)]).exit_code == 0
    done = CliRunner().invoke(tracline, [*words, "--seed", str(1 << 53)])
    assert (done.exit_code, "--seed" in done.stderr) == (2, True)
