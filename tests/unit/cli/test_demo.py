"""`tracline demo`: its files, its output, and what it leaves alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.cli.commands.audit.demo import find_spike
from tracline.predict.folder.load import load_chain
from tracline.predict.folder.riskiest import riskiest

from ...support.checker import derived


def demo(out: Path, sessions: int, *more: str) -> Result:
    """Run the command quietly."""
    args = ["demo", "--out", str(out), "--sessions", str(sessions), "--quiet", *more]
    return CliRunner().invoke(tracline, args)


@pytest.mark.slow
def test_the_demo_finds_what_the_simulation_did_and_the_day_of_the_spike(tmp_path: Path) -> None:
    """It audits every conversation, agrees with the simulation's own books and names the spike's day."""
    result = demo(tmp_path / "demo", 900)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith("900 conversations")
    assert "On 2026-03-11 `confirm-before-refund` was broken in" in result.stdout
    both = r"broke a rule (\d+) times.*found (\d+) of these and no others"
    counts = re.search(both, result.stdout, re.DOTALL)
    assert counts is not None
    assert int(counts[1]) == int(counts[2]) > 50
    found, table_only = derived(tmp_path / "demo" / "bundle")
    assert found > 80
    assert table_only == 0
    summary = json.loads((tmp_path / "demo" / "bundle" / "summary.json").read_text())
    assert summary["population"]["sessions"] == 900
    chain = load_chain(tmp_path / "demo" / "chain")
    least = sorted((each.low for each in riskiest(chain.rules.values(), 5)), reverse=True)
    shown = re.findall(r"\d of \d+ held-out conversations broke it later \((\S+) % to", result.stdout)
    assert shown == [f"{100 * each:.2g}" for each in least[:3]]
    assert summary["population"]["rejected"] == summary["population"]["open_sessions"] == 0


@pytest.mark.slow
def test_a_demo_of_too_few_conversations_learns_no_chain(tmp_path: Path) -> None:
    """It states why, and is a whole demo all the same."""
    result = demo(tmp_path / "demo", 10)
    assert result.exit_code == 0
    assert "No chain was learned: " in result.stdout
    assert not (tmp_path / "demo" / "chain").exists()


@pytest.mark.slow
def test_a_second_demo_replaces_the_first(tmp_path: Path) -> None:
    """The same demo again writes the same verdicts; another seed leaves nothing of the first."""
    verdicts = tmp_path / "demo" / "bundle" / "verdicts.jsonl"
    assert demo(tmp_path / "demo", 100).exit_code == 0
    first = verdicts.read_bytes()
    assert demo(tmp_path / "demo", 100).exit_code == 0
    assert verdicts.read_bytes() == first
    assert demo(tmp_path / "demo", 100, "--seed", "8").stdout.startswith("100 conversations")
    assert verdicts.read_bytes() != first


def test_the_demo_takes_no_other_archives_place(tmp_path: Path) -> None:
    """A folder that the demo did not make is left as it is, and the exit code is 2."""
    mine = tmp_path / "demo" / "archive" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("kept")
    result = demo(tmp_path / "demo", 10)
    assert result.exit_code == 2
    assert "choose another --out" in result.stderr
    assert mine.read_text() == "kept"


def counts(broken: int, applied: int) -> dict[str, int]:
    """A rule's counts on a day, as far as a spike is concerned."""
    return {"sessions_violating": broken, "sessions_applicable": applied}


def test_a_spike_is_a_day_far_above_the_others() -> None:
    """The day furthest above its rule's others is found; few sessions, and even days, are no spike."""
    steady = {**counts(30, 300), "by_day": {f"2026-03-0{i}": counts(10, 100) for i in (1, 2, 3)}}
    few = {**counts(12, 210), "by_day": {"2026-03-01": counts(4, 4), "2026-03-02": counts(8, 206)}}
    risen = {**counts(32, 200), "by_day": {"2026-03-01": counts(2, 100), "2026-03-02": counts(30, 100)}}
    assert find_spike({"steady": steady, "few": few}) is None
    spike = find_spike({"steady": steady, "few": few, "risen": risen})
    assert spike is not None
    assert (spike.rule, spike.day, spike.rate, spike.otherwise) == ("risen", "2026-03-02", 0.3, 0.02)
