"""`risk.jsonl` of an audit by a chain, against crossings in plain Python."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.redaction.redact import redact
from tracline.batch.redaction.secret import RedactionSecret
from tracline.batch.verification.attested import read_attested
from tracline.batch.verification.verify import VerificationRequest, verify
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs
from tracline.schemas.time import NS

from ...support.chains.chains_by_symbol import CHAIN, chain_of, expected_crossings
from ...support.chains.counted_archives import PACK, random_sessions, rows
from ...support.event_rows import START, write
from ...support.evidence.bundle_lines import bundle_lines

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path: Path) -> RuleSet:
    """The rules of the pack."""
    file = tmp_path / "desk.yaml"
    file.write_text(PACK)
    return load_packs(file)


def test_an_audit_writes_the_crossings_of_every_rule(desk: RuleSet, tmp_path: Path) -> None:
    """Plain, stepped and sliced rules; the bundle is whole, and its attestation names the chain."""
    sessions = random_sessions(60, 11)
    archive = write(tmp_path / "events.parquet", rows(sessions))
    bundle = tmp_path / "bundle"
    audit((str(archive),), desk, bundle, AuditOptions(), chain=chain_of(desk))
    lines = bundle_lines(bundle, "risk.jsonl")
    names = ("session_id", "rule", "seq", "slice", "level")
    found = [tuple(line[name] for name in names) for line in lines]
    assert len(found) == len(set(found)) > 100
    assert set(found) == expected_crossings(desk, sessions)
    assert {(line["chain"], line["within"], line["threshold"], line["low"]) for line in lines} == {
        (CHAIN, 5, 0.5, 0)
    }
    assert {line["risk"] for line in lines if line["level"] == "up"} == {0.5, 0.7}
    assert {line["risk"] for line in lines if line["level"] == "down"} == {0.1, 0.3}
    assert verify(bundle, VerificationRequest()).exit_code == 0
    assert read_attested(bundle).predicate["chains"] == [CHAIN]


def test_files_threads_and_spilled_buckets_change_no_byte(
    desk: RuleSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file, and shuffled files with small buckets and threads, have the same crossings and figures."""
    sessions, random, chain = random_sessions(80, 12), Random(12), chain_of(desk)
    archive = write(tmp_path / "whole" / "events.parquet", rows(sessions))
    audit((str(archive),), desk, tmp_path / "one", AuditOptions(), chain=chain)
    random.shuffle(sessions)
    for number in range(8):
        write(tmp_path / "files" / f"{number}.parquet", rows(sessions[number * 10 : number * 10 + 10]))
    monkeypatch.setattr("tracline.batch.prepare.spill.BUCKET_ROWS", 60)
    monkeypatch.setattr("tracline.batch.prepare.spill.HELD_BYTES", 0)
    files = (str(tmp_path / "files"),)
    audit(files, desk, tmp_path / "many", AuditOptions(threads=3), chain=chain)
    assert (tmp_path / "one" / "risk.jsonl").read_bytes() == (tmp_path / "many" / "risk.jsonl").read_bytes()
    single, many = (json.loads((tmp_path / name / "summary.json").read_bytes()) for name in ("one", "many"))
    assert single["rules"] == many["rules"]
    assert (tmp_path / "one" / "sessions.jsonl").read_bytes() == (
        tmp_path / "many" / "sessions.jsonl"
    ).read_bytes()


def test_crossings_outside_the_window_are_left_out(desk: RuleSet, tmp_path: Path) -> None:
    """A session that spans the window is followed from its first event."""
    sessions, chain = random_sessions(40, 13), chain_of(desk)
    archive = (str(write(tmp_path / "events.parquet", rows(sessions))),)
    audit(archive, desk, tmp_path / "all", AuditOptions(), chain=chain)
    options = AuditOptions(since=START + 2 * NS, until=START + 4 * NS)
    audit(archive, desk, tmp_path / "some", options, chain=chain)
    inside = [line for line in bundle_lines(tmp_path / "all", "risk.jsonl") if line["seq"] in (3, 4)]
    assert inside
    assert bundle_lines(tmp_path / "some", "risk.jsonl") == inside


def test_a_crossing_under_another_id_is_found_without_a_key(desk: RuleSet, tmp_path: Path) -> None:
    """The id is the digest of the crossing, which a changed level does not have."""
    archive = (str(write(tmp_path / "events.parquet", rows(random_sessions(20, 14)))),)
    bundle = tmp_path / "bundle"
    audit(archive, desk, bundle, AuditOptions(), chain=chain_of(desk))
    file = bundle / "risk.jsonl"
    file.write_text(file.read_text().replace('"level":"up"', '"level":"down"', 1))
    checks = {each.check: each for each in verify(bundle, VerificationRequest()).checks}
    assert checks["ids"].result.value == "failed"
    assert checks["ids"].files == ("risk.jsonl",)


def test_a_redacted_bundle_has_no_event_id_of_a_crossing(desk: RuleSet, tmp_path: Path) -> None:
    """Events and ids are replaced, and the risks stay."""
    archive = (str(write(tmp_path / "events.parquet", rows(random_sessions(20, 15)))),)
    audit(archive, desk, tmp_path / "bundle", AuditOptions(), chain=chain_of(desk))
    redact(tmp_path / "bundle", tmp_path / "other", RedactionSecret(bytes(range(32))), (), sessions=True)
    before = bundle_lines(tmp_path / "bundle", "risk.jsonl")
    after = bundle_lines(tmp_path / "other", "risk.jsonl")
    hidden = {line[name] for line in before for name in ("id", "event_id", "session_id")}
    assert not hidden & {line[name] for line in after for name in ("id", "event_id", "session_id")}
    assert sorted(line["risk"] for line in before) == sorted(line["risk"] for line in after)


@pytest.mark.parametrize("judged", [("plain",), ("stepped", "sliced")])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_chain_reads_labels_that_no_judged_rule_reads(
    desk: RuleSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: tuple[str, ...], in_order: bool
) -> None:
    """Those of the chain's other rules are labelled in the same pass, in any order of rows."""
    monkeypatch.setattr("tracline.batch.prepare.spill.BUCKET_ROWS", 60)
    monkeypatch.setattr("tracline.batch.prepare.spill.PASS_ROWS", 97)
    monkeypatch.setattr("tracline.batch.audit.audit.FILE_ROWS_MIN", 1)
    more = PACK.replace("  q: text", '  r: text contains "pq"\n  q: text').replace("p or q", "p or q or r")
    (tmp_path / "more.yaml").write_text(more)
    chain = chain_of(load_packs(tmp_path / "more.yaml"))
    sessions = random_sessions(80, 16)
    found = rows(sessions)
    if not in_order:
        Random(3).shuffle(found)
    archive = (str(write(tmp_path / "events.parquet", found)),)
    whole, fewer = tmp_path / "whole", tmp_path / "fewer"
    result = audit(archive, desk, whole, AuditOptions(threads=2), chain=chain)
    assert (result.rows_in_order > 0) is in_order
    rules = replace(desk, rules=tuple(rule for rule in desk.rules if rule.id in judged))
    audit(archive, rules, fewer, AuditOptions(), chain=chain)
    audit(archive, rules, tmp_path / "plain", AuditOptions())
    assert len(bundle_lines(fewer, "risk.jsonl")) > 100
    assert (fewer / "risk.jsonl").read_bytes() == (whole / "risk.jsonl").read_bytes()
    for name in ("verdicts.jsonl", "certificates.jsonl", "open.jsonl"):
        assert (fewer / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    by_rule = {
        folder: json.loads((folder / "summary.json").read_bytes())["rules"] for folder in (whole, fewer)
    }
    assert all(by_rule[fewer][rule]["risk"] == by_rule[whole][rule]["risk"] for rule in judged)
