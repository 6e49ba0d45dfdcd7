"""`tracline audit --predict` with a chain that `tracline predict learn` wrote."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.archive.manifest import ManifestSource
from tracline.archive.rule_sets import write_rule_set
from tracline.archive.writer import CHAIN_COLUMN, RULES_COLUMN, archive_writer
from tracline.cli import tracline
from tracline.predict.folder.learned_chain import LearnedChain
from tracline.predict.folder.load import load_chain
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.packs.load import load_packs

from ...support.chains.counted_archives import PACK, random_sessions, rows
from ...support.chains.slow_counting import SlowSession
from ...support.chains.slow_following import slow_crossings
from ...support.event_rows import write
from ...support.evidence.bundle_lines import bundle_lines

pytestmark = pytest.mark.slow

SESSIONS = random_sessions(300, 21)


def run(*args: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(tracline, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a pack, an archive, and a chain that was learned from it."""
    folder = tmp_path_factory.mktemp("predict")
    (folder / "desk.yaml").write_text(PACK)
    write(folder / "events.parquet", rows(SESSIONS))
    done = run(
        *("predict", "learn", folder / "events.parquet", "--rules", folder / "desk.yaml"),
        *("--out", folder / "desk.chain", "--within", 3),
    )
    assert done.exit_code == 0, done.output
    return folder


def audited(place: Path, out: Path, *more: object) -> Result:
    """Audit the archive by the chain."""
    return run(
        *("audit", place / "events.parquet", "--rules", place / "desk.yaml", "--out", out),
        *("--predict", place / "desk.chain", *more),
    )


def test_crossings_are_those_of_the_chain_looked_up_at_every_event(place: Path, tmp_path: Path) -> None:
    """For every rule, plain stepping and the chain's own look-up give the same crossings."""
    done = audited(place, tmp_path / "bundle", "--above", 0.3)
    assert done.exit_code == 0, done.output
    chain, rules = load_chain(place / "desk.chain"), load_packs(place / "desk.yaml").rules
    lines = bundle_lines(tmp_path / "bundle", "risk.jsonl")
    for rule in rules:
        if rule.for_each is not None:
            continue
        expected = {
            (each.session, each.event + 1, each.level)
            for session in SESSIONS
            for each in slow_crossings(
                compile_rule(rule),
                SlowSession(
                    session.name,
                    [e._replace(seen=rule.steps is None or bool(e.true)) for e in session.events],
                ),
                False,
                lambda symbol, state, rule=rule: risk_of(chain, rule.id, symbol, state),
                threshold_of(chain, rule.id) or 0.3,
            )
        }
        of_rule = [line for line in lines if line["rule"] == rule.id]
        assert {(line["session_id"], line["seq"], line["level"]) for line in of_rule} == expected
        assert len(of_rule) > 20, rule.id
        assert {line["chain"] for line in of_rule} == {chain.digest}
        assert {line["within"] for line in of_rule} == {3}


def risk_of(chain: LearnedChain, rule: str, symbol: str, state: int) -> float | None:
    """Return the risk that the chain's look-up gives."""
    found = chain.risk("desk", rule, symbol=symbol, state=state, within=3)
    return None if found is None else found.risk


def threshold_of(chain: LearnedChain, rule: str) -> float | None:
    """Return the guaranteed threshold within three events."""
    [found] = [each for each in chain.document["rules"] if each["rule"] == rule]
    return {each["within"]: each["threshold"] for each in found["thresholds"]}[3]


def test_a_changed_rule_has_no_risk_and_is_named(place: Path, tmp_path: Path) -> None:
    """The chain serves the rules that it was learned from; without any of them it is refused."""
    pack = tmp_path / "desk.yaml"
    pack.write_text(PACK.replace("always (p -> next q)", "always (p -> next p)"))
    archive, chain = place / "events.parquet", ("--predict", place / "desk.chain", "--above", 0.5)
    done = run("audit", archive, "--rules", pack, "--out", tmp_path / "bundle", *chain)
    assert done.exit_code == 0, done.output
    assert "not learned by the chain: desk/stepped" in done.output
    assert "stepped" not in {line["rule"] for line in bundle_lines(tmp_path / "bundle", "risk.jsonl")}
    done = run("audit", archive, "--rules", pack, "--select", "stepped", "--out", tmp_path / "one", *chain)
    assert done.exit_code == 2
    assert "TRL803" in done.output
    assert not (tmp_path / "one").exists()


def test_rules_without_a_threshold_are_named(place: Path, tmp_path: Path) -> None:
    """A few held-out violations guarantee nothing, and then `--above` is needed."""
    done = audited(place, tmp_path / "bundle")
    assert done.exit_code == 0, done.output
    document = json.loads((place / "desk.chain" / "chain.json").read_bytes())
    without = {each["rule"] for each in document["rules"] if not each["thresholds"][1]["threshold"]}
    found = {line["rule"] for line in bundle_lines(tmp_path / "bundle", "risk.jsonl")}
    assert not found & without
    for rule in without:
        assert f"desk/{rule}" in done.output


def test_a_threshold_needs_a_chain(place: Path, tmp_path: Path) -> None:
    """`--above` alone means nothing."""
    pack = place / "desk.yaml"
    done = run("audit", place / "events.parquet", "--rules", pack, "--out", tmp_path, "--above", "0.5")
    assert done.exit_code == 2
    assert "--above requires --predict" in done.output


def live_archive(place: Path, root: Path, pack: Path | None = None) -> Path:
    """Write the archive as one judged live by a pack, whose later sessions the chain followed."""
    rule_set, chain = load_packs(pack or place / "desk.yaml"), load_chain(place / "desk.chain").digest
    events, digest = pl.read_parquet(place / "events.parquet"), rule_set_digest(rule_set)
    named = pl.when(pl.col("session_id") > "s020").then(pl.lit(chain)).alias(CHAIN_COLUMN)
    with archive_writer(root) as writer:
        rows = events.with_columns(pl.lit(digest).alias(RULES_COLUMN), named)
        writer.write(rows, ManifestSource("kafka", "c" * 64), (0, 0))
    write_rule_set(root, digest, rule_set.sources)
    return root


def test_an_audit_without_the_chain_names_the_chains_of_the_archive(place: Path, tmp_path: Path) -> None:
    """By rules and as judged, with the events that none followed; `show` likewise for a session."""
    root, chain = live_archive(place, tmp_path / "live"), load_chain(place / "desk.chain").digest
    events = pl.read_parquet(place / "events.parquet").filter(pl.col("kind") != "end")
    followed = len(events.filter(pl.col("session_id") > "s020"))
    rest = len(events) - followed
    note = f"live, {chain[:16]} followed {followed:,} events, no chain followed {rest:,} events"
    for number, given in enumerate((("--rules", place / "desk.yaml"), ("--as-judged",))):
        bundle = tmp_path / f"{number}"
        assert f"{note}: give the chain with --predict" in run("audit", root, *given, "--out", bundle).output
        assert "followed" not in json.loads((bundle / "summary.json").read_bytes())
        given = (*given, "--predict", place / "desk.chain", "--above", 0.3)
        assert "live, " not in run("audit", root, *given, "--out", bundle).output
    assert "live, " not in audited(place, tmp_path / "plain", "--above", 0.3).output
    first, last = run("show", root, "--session", "s001").output, run("show", root, "--session", "s030").output
    count = len(events.filter(session_id="s030"))
    assert f"live, chain {chain} followed {count} of {count} events" in last.replace("\n", "")
    assert "live, no chain followed" in first
    shown = run("show", root, "--session", "s030", "--format", "json").output.splitlines()
    assert {json.loads(line)["chain"] for line in shown} == {chain}
    plain = run("show", place / "events.parquet", "--session", "s030", "--format", "json").output
    assert "chain" not in json.loads(plain.splitlines()[0])


def test_an_audit_as_judged_names_the_rules_without_a_risk(place: Path, tmp_path: Path) -> None:
    """Rules that the chain was not learned from, and those without a threshold."""
    pack = tmp_path / "desk.yaml"
    pack.write_text((place / "desk.yaml").read_text().replace("always (p -> next q)", "always (q -> next p)"))
    root = live_archive(place, tmp_path / "live", pack)
    given = ("--as-judged", "--out", tmp_path / "bundle", "--predict", place / "desk.chain")
    done = run("audit", root, *given, "--above", 0.3)
    assert done.exit_code == 0, done.output
    assert "not learned by the chain: desk/stepped" in done.output
    assert "without a threshold" not in done.output
    assert "without a threshold: give one with --above: desk/" in run("audit", root, *given).output


def test_a_live_archive_is_followed_as_judged_and_verified(place: Path, tmp_path: Path) -> None:
    """Only where its events name the chain; `verify --rerun` needs the chain for the crossings."""
    root = live_archive(place, tmp_path / "live")
    bundle, given = tmp_path / "bundle", ("--predict", place / "desk.chain", "--above", 0.3)
    done = run("audit", root, "--as-judged", "--out", bundle, *given)
    assert done.exit_code == 0, done.output
    assert audited(place, tmp_path / "plain", "--above", 0.3).exit_code == 0
    lines = bundle_lines(tmp_path / "plain", "risk.jsonl")
    found = bundle_lines(bundle, "risk.jsonl")
    assert found == [line for line in lines if line["session_id"] > "s020"]
    assert 0 < len(found) < len(lines)
    followed = json.loads((bundle / "summary.json").read_bytes())["followed"]
    assert followed["sessions_without_risk"] == 21
    again = run("verify", bundle, "--rerun", "--archive", root, "--predict", place / "desk.chain")
    assert "the same verdicts and crossings" in again.output, again.output


def test_a_folder_that_is_no_chain_is_refused(place: Path, tmp_path: Path) -> None:
    """An empty folder is named with its code."""
    done = run(
        *("audit", place / "events.parquet", "--rules", place / "desk.yaml"),
        *("--out", tmp_path / "bundle", "--predict", tmp_path),
    )
    assert done.exit_code == 2
    assert "TRL801" in done.output


def test_a_rerun_follows_the_same_chain_again(place: Path, tmp_path: Path) -> None:
    """With the chain the crossings are compared, without it all else is; another chain is not followed."""
    bundle, archive = tmp_path / "bundle", place / "events.parquet"
    assert audited(place, bundle, "--above", 0.3).exit_code == 0
    verify = ("verify", bundle, "--archive", archive, "--rerun")
    assert "the risks are not checked: --predict CHAIN" in run(*verify).output
    done = run(*verify, "--predict", place / "desk.chain")
    assert done.exit_code == 0, done.output
    assert "writes the same verdicts and crossings" in done.output
    learning = (
        "predict",
        "learn",
        archive,
        "--rules",
        place / "desk.yaml",
        "--out",
        tmp_path / "other.chain",
    )
    assert run(*learning, "--within", 2).exit_code == 0
    done = run(*verify, "--predict", tmp_path / "other.chain")
    assert done.exit_code == 2
    assert "the audit followed another chain" in done.output
    assert run("verify", bundle, "--predict", place / "desk.chain").exit_code == 2


def test_a_rerun_finds_a_crossing_that_was_left_out(place: Path, tmp_path: Path) -> None:
    """All ids are right, and yet the archive has one crossing more."""
    bundle, archive = tmp_path / "bundle", place / "events.parquet"
    assert audited(place, bundle, "--above", 0.3).exit_code == 0
    file = bundle / "risk.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[1:]))
    again = run("verify", bundle, "--archive", archive, "--rerun", "--predict", place / "desk.chain")
    rerun = [line for line in again.output.splitlines() if line.startswith("rerun")]
    assert "risk.jsonl" in again.output, rerun
    assert again.exit_code == 1


def test_nights_have_the_crossings_of_one_audit(place: Path, tmp_path: Path) -> None:
    """Each crossing stands in the night in which its session closed."""
    archive, lines = place / "events.parquet", list[dict]()
    times = sorted(
        {each["time"] for each in map(json.loads, (audited_lines(place, tmp_path / "whole", "--above", 0.3)))}
    )
    ends = ["2020-01-01T00:00:00Z", times[len(times) // 2], "2030-01-01T00:00:00Z"]
    for number, (begin, end) in enumerate(pairwise(ends)):
        night = ("--previous-as-of", begin, "--as-of", end, "--above", 0.3)
        out = tmp_path / f"night-{number}"
        done = audited(place, out, *night)
        assert done.exit_code == 0, done.output
        lines += bundle_lines(out, "risk.jsonl")
        chain = ("--predict", place / "desk.chain")
        again = run("verify", out, "--archive", archive, "--rerun", *chain)
        assert again.exit_code == 0, again.output
    assert audited(place, tmp_path / "all", "--above", 0.3, "--as-of", ends[-1]).exit_code == 0
    every = bundle_lines(tmp_path / "all", "risk.jsonl")
    assert sorted(each["id"] for each in lines) == sorted(each["id"] for each in every)


def audited_lines(place: Path, out: Path, *more: object) -> list[bytes]:
    """Return the lines of the crossings of an audit."""
    assert audited(place, out, *more).exit_code == 0
    return (out / "risk.jsonl").read_bytes().splitlines()
