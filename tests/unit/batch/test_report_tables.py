"""`tracline report --csv` and `--compare`: a bundle for spreadsheets, and beside another one."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.batch.report.comparison import LISTED_MAX, compare_bundles
from tracline.cli import tracline

from ...support.event_rows import PACK, call, result, session, user, write
from ...support.evidence.bundle_lines import bundle_lines


def run(*words: str | Path) -> Result:
    """Run the command with these words."""
    return CliRunner().invoke(tracline, list(map(str, words)))


def audited(folder: Path, rows: list[dict], pack: str = PACK) -> Path:
    """Audit rows into a bundle."""
    folder.mkdir()
    (folder / "desk.yaml").write_text(pack)
    write(folder / "archive" / "events.parquet", rows)
    words = ["--rules", folder / "desk.yaml", "--out", folder / "bundle", "-q"]
    assert run("audit", folder / "archive", *words).exit_code == 0
    return folder / "bundle"


def test_the_table_has_a_row_for_each_violation(tmp_path: Path) -> None:
    """The columns are those of the verdicts, with the rule's title; nothing becomes a formula."""
    rows = session("=1+1", user("no!")) + session("+s", user("no!")) + session("good", user("a"), result())
    bundle = audited(tmp_path / "a", rows)
    done = run("report", bundle, "--csv")
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    records = bundle_lines(bundle)
    wanted = [record for record in records if record["verdict"] in ("violated", "unmet")]
    assert [row["id"] for row in found] == [record["id"] for record in wanted]
    assert {row["session_id"] for row in found} == {"'=1+1", "'+s"}
    assert all(row["rule"] == record["rule"] for row, record in zip(found, wanted, strict=True))
    assert {row["seq"] for row in found} == {"1"}


@pytest.mark.slow
def test_a_comparison_counts_what_is_new_and_what_vanished(tmp_path: Path) -> None:
    """Violations that both bundles have are neither, also where the rule's digest changed."""
    bad, fixed, same = (session(name, user("no!")) for name in ("bad", "fixed", "same"))
    good = session("fixed", user("a"))
    before = audited(tmp_path / "before", [*same, *fixed])
    changed = PACK.replace('text contains "!"', 'text contains "!" or text contains "?!"')
    now = audited(tmp_path / "now", [*bad, *same, *good], changed)
    found = compare_bundles(before, now)
    assert [record.session_id for record in found.new] == ["bad"]
    assert [record.session_id for record in found.vanished] == ["fixed"]
    rules = {rule.key: rule for rule in found.rules}
    calm = rules["calm"]
    assert (calm.new, calm.vanished, calm.is_changed) == (1, 1, True)
    assert not any(rule.new or rule.vanished for rule in found.rules if rule is not calm)
    assert found.population["sessions"] == (2, 3)
    text = run("report", now, "--compare", before).stdout
    assert "sessions: 2 -> 3 (+1)" in text
    assert "calm: 2 of 2: 100.0% [34.2% to 100.0%] -> 2 of 3: 66.7% [20.8% to 93.9%]" in text
    assert "1 new, 1 vanished, the rule changed" in text
    assert f"session bad, event 1: {found.new[0].id}" in text


def test_a_bundle_beside_itself_has_no_change(tmp_path: Path) -> None:
    """Nothing is new, nothing vanished, no rule changed."""
    bundle = audited(tmp_path / "a", session("bad", user("no!"), call("pay", "c1")))
    found = compare_bundles(bundle, bundle)
    assert (found.new, found.vanished) == ((), ())
    assert all(rule.before == rule.now and not rule.is_changed for rule in found.rules)
    assert all(before == now for before, now in found.population.values())


@pytest.mark.slow
def test_damaged_bundles_are_errors(tmp_path: Path) -> None:
    """The error is TRL424 and names the damaged bundle; the two options exclude each other."""
    bundle = audited(tmp_path / "a", session("bad", user("no!")))
    damaged = audited(tmp_path / "b", session("bad", user("no!")))
    (damaged / "verdicts.jsonl").write_text("{}\n")
    for words in ((damaged, "--csv"), (bundle, "--compare", damaged)):
        done = run("report", *words)
        assert done.exit_code == 2
        assert f"{damaged}: TRL424" in done.stderr
    assert run("report", bundle, "--csv", "--compare", bundle).exit_code == 2


@pytest.mark.slow
def test_a_comparison_lists_the_most_severe_violations(tmp_path: Path) -> None:
    """A severe one is listed although many milder ones come before it in the bundle."""
    before = audited(tmp_path / "before", session("same", user("a")))
    mild = [row for at in range(LISTED_MAX) for row in session(f"a{at}", call("pay"))]
    now = audited(tmp_path / "now", [*mild, *session("b", user("no!"))])
    found = compare_bundles(before, now)
    assert (found.new[0].session_id, len(found.new)) == ("b", LISTED_MAX)
    assert sum(rule.new for rule in found.rules) == LISTED_MAX + 1
