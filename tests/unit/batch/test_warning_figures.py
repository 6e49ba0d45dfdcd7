"""The worth of warnings in `summary.json`: against plain Python, and against the records of the bundle."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.verification.verify import VerificationRequest, verify
from tracline.predict.chain.contexts import UNSEEN
from tracline.predict.counting.symbols import OWN
from tracline.predict.counting.watched_rules import watch
from tracline.predict.following.followed_chain import FollowedChain
from tracline.predict.following.followed_risks import ContextRisk, FollowedRisks
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs
from tracline.schemas.frames.events import event_frame
from tracline.schemas.time import NS

from ...support.chains.chains_by_symbol import CHAIN, RISKS, chain_of
from ...support.chains.counted_archives import PACK, random_sessions, rows
from ...support.chains.slow_counting import UNKNOWN_VALUE, SlowSequence, SlowSession, slow_sequences
from ...support.chains.slow_following import slow_crossings
from ...support.conversations import rule_sessions
from ...support.event_rows import START, write
from ...support.evidence.bundle_lines import bundle_lines

WITHIN, THRESHOLD = 5, 0.5


def summary_of(bundle: Path) -> dict[str, Any]:
    """Return the entries of the rules."""
    return json.loads((bundle / "summary.json").read_bytes())["rules"]


@pytest.fixture
def desk(tmp_path: Path) -> RuleSet:
    """The rules of the pack."""
    file = tmp_path / "desk.yaml"
    file.write_text(PACK)
    return load_packs(file)


def slow_figures(rule_set: RuleSet, sessions: list[SlowSession]) -> dict[str, dict[str, Any]]:
    """Return the figures of each rule: every sequence looked at event by event."""
    found: dict[str, dict[str, Any]] = {}
    for rule in rule_set.rules:
        missed, leads, squares, hits = set[str](), dict[str, int](), list[float](), list[int]()
        violating, unwarned = set[str](), set[str]()
        for each in sessions:
            events = [e._replace(seen=rule.steps is None or bool(e.true)) for e in each.events]
            session, machine = SlowSession(each.name, events, each.closed), compile_rule(rule)
            is_sliced = rule.for_each is not None
            crossings = slow_crossings(machine, session, is_sliced, risk_of, THRESHOLD)
            sequences = slow_sequences(machine, session, is_sliced)
            for sequence, value in zip(sequences, values_of(session, is_sliced), strict=True):
                risks = [RISKS.get(symbol, RISKS[UNSEEN]) for symbol, _, _ in sequence.places]
                verdicts = verdicts_of(sequence)
                for place, known in outcome_places(sequence):
                    is_hit = any(place < verdict <= place + WITHIN for verdict in verdicts)
                    if known:
                        squares.append((risks[place] - is_hit) ** 2)
                        hits.append(is_hit)
                if not verdicts:
                    continue
                violating.add(each.name)
                early = [at for at in range(1, min(verdicts)) if risks[at] >= THRESHOLD]
                if early:
                    lead = min(verdicts) - early[0]
                    leads[each.name] = min(lead, leads.get(each.name, lead))
                else:
                    unwarned.add(each.name)
                # The close is after the last event.
                numbers = [*event_numbers(session, value, is_sliced), len(events)]
                if not any(
                    up.level == "up" and up.value in (None, value) and up.event < numbers[min(verdicts) - 1]
                    for up in crossings
                ):
                    missed.add(each.name)
        leads = {name: lead for name, lead in leads.items() if name not in unwarned}
        found[rule.id] = {
            "warned_before": len(violating - missed),
            "missed": len(missed),
            "lead_events_median": median(leads.values()) if leads else None,
            "brier": pytest.approx(sum(squares) / len(squares), abs=1e-9),
            "base_rate": pytest.approx(sum(hits) / len(hits), abs=1e-9),
        }
    return found


def risk_of(symbol: str, _: int) -> float:
    """Return the risk of a symbol."""
    return RISKS.get(symbol, RISKS[UNSEEN])


def values_of(session: SlowSession, is_sliced: bool) -> list[str | None]:
    """Return the value of each sequence of a session."""
    judged = [event for event in session.events if event.seen]
    cut = next((at for at, event in enumerate(judged) if event.value == UNKNOWN_VALUE), None)
    values = list(dict.fromkeys(event.value for event in judged[:cut] if event.value is not None))
    return [*values] if values and is_sliced else [None]


def event_numbers(session: SlowSession, value: str | None, is_sliced: bool) -> list[int]:
    """Return the numbers of the events of a sequence."""
    wanted = (None, value) if is_sliced else {event.value for event in session.events}
    return [number for number, event in enumerate(session.events) if event.seen and event.value in wanted]


def verdicts_of(sequence: SlowSequence) -> list[int]:
    """Return the places of verdicts against the agent; the close is one more place."""
    found = [place for place, (_, _, violated) in enumerate(sequence.places) if violated]
    return [*found, len(sequence.places)] if sequence.ending == "unmet" else found


def outcome_places(sequence: SlowSequence) -> list[tuple[int, bool]]:
    """Return the places after events, and whether the whole horizon after each was seen."""
    last = len(sequence.places) - 1
    return [(at, sequence.ending != "cut" or last - at >= WITHIN) for at in range(1, last + 1)]


@pytest.mark.slow
def test_the_figures_are_those_of_every_event_looked_at(desk: RuleSet, tmp_path: Path) -> None:
    """Plain, stepped and sliced rules: warned and missed sessions, their lead, Brier score and base rate."""
    sessions = random_sessions(120, 31)
    archive = write(tmp_path / "events.parquet", rows(sessions))
    audit((str(archive),), desk, tmp_path / "bundle", AuditOptions(), chain=chain_of(desk))
    entries = summary_of(tmp_path / "bundle")
    expected = slow_figures(desk, sessions)
    assert {name: {key: entry["risk"][key] for key in expected[name]} for name, entry in entries.items()} == (
        expected
    )
    for name, entry in entries.items():
        risk = entry["risk"]
        assert (risk["within"], risk["threshold"]) == (WITHIN, THRESHOLD)
        assert risk["warned_before"] + risk["missed"] == entry["sessions_violating"]
        assert risk["sessions_warned"] >= risk["warned_before"] > 0, name
    assert sum(entry["risk"]["missed"] for entry in entries.values()) > 20


def random_chain(rule_set: RuleSet) -> FollowedChain:
    """Return a chain of all rules, whose risk depends on the state of the machine alone."""
    watched = watch(rule_set)
    risks = {
        number: FollowedRisks(
            rule.pack,
            rule.id,
            watched.compiled.digests[number],
            WITHIN,
            THRESHOLD,
            [
                ContextRisk(UNSEEN, state, memory, state * 7 % 10 / 10, 0.0, 1.0, 3, "state")
                for state in range(100)
                for memory in ("", OWN)
            ],
        )
        for number, rule in enumerate(rule_set.rules)
    }
    return FollowedChain(CHAIN, watched, risks)


@pytest.mark.slow
@pytest.mark.parametrize("options", [AuditOptions(), AuditOptions(since=START - 9 * 10**17)])
def test_rules_of_every_kind_count_as_their_records(tmp_path: Path, options: AuditOptions) -> None:
    """With unknown content, history, several occurrences and open ones, `verify` counts the same sessions."""
    rule_set = rule_sessions.rule_set()
    archive = tmp_path / "events.parquet"
    event_frame(rule_sessions.random_sessions(Random(5), 150, 20)).write_parquet(archive)
    audit((str(archive),), rule_set, tmp_path / "bundle", options, chain=random_chain(rule_set))
    entries = summary_of(tmp_path / "bundle")
    for name, entry in entries.items():
        risk = entry["risk"]
        assert risk["warned_before"] + risk["missed"] == entry["sessions_violating"], name
    assert sum(entry["risk"]["missed"] for entry in entries.values()) > 100
    assert sum(entry["risk"]["warned_before"] for entry in entries.values()) > 100
    checks = {each.check: each for each in verify(tmp_path / "bundle", VerificationRequest()).checks}
    assert checks["summary"].result.value == "passed", checks["summary"].detail


@pytest.mark.slow
def test_a_verdict_outside_the_window_is_no_missed_one(desk: RuleSet, tmp_path: Path) -> None:
    """Only verdicts in the window count, and warnings before the window do."""
    sessions, chain = random_sessions(60, 33), chain_of(desk)
    archive = (str(write(tmp_path / "events.parquet", rows(sessions))),)
    options = AuditOptions(since=START + 3 * NS, until=START + 6 * NS)
    audit(archive, desk, tmp_path / "bundle", options, chain=chain)
    for name, entry in summary_of(tmp_path / "bundle").items():
        risk = entry["risk"]
        assert risk["warned_before"] + risk["missed"] == entry["sessions_violating"] > 0, name
    assert verify(tmp_path / "bundle", VerificationRequest()).exit_code == 0


@pytest.mark.slow
def test_a_changed_figure_is_found_without_a_key(desk: RuleSet, tmp_path: Path) -> None:
    """The number of warned sessions follows from the crossings."""
    archive = (str(write(tmp_path / "events.parquet", rows(random_sessions(20, 34)))),)
    audit(archive, desk, tmp_path / "bundle", AuditOptions(), chain=chain_of(desk))
    file = tmp_path / "bundle" / "summary.json"
    content = json.loads(file.read_bytes())
    content["rules"]["plain"]["risk"]["sessions_warned"] += 1
    file.write_text(json.dumps(content))
    checks = {each.check: each for each in verify(tmp_path / "bundle", VerificationRequest()).checks}
    assert checks["summary"].result.value == "failed"
    assert "sessions_warned" in checks["summary"].detail


@pytest.mark.slow
def test_drift_is_more_verdicts_than_the_intervals_allow(desk: RuleSet, tmp_path: Path) -> None:
    """A chain that bounds the next verdict by 0.1 % has drifted; one that bounds it by 99 % has not."""
    archive = (str(write(tmp_path / "events.parquet", rows(random_sessions(60, 35)))),)
    for high, drift in ((0.001, True), (0.99, False)):
        watched = watch(desk)
        risks = {
            number: FollowedRisks(
                rule.pack,
                rule.id,
                watched.compiled.digests[number],
                WITHIN,
                THRESHOLD,
                [
                    ContextRisk(UNSEEN, state, memory, 0.6, 0.0, 1.0, 3, "state", next_high=high)
                    for state in range(20)
                    for memory in ("", OWN)
                ],
            )
            for number, rule in enumerate(desk.rules)
        }
        out = tmp_path / str(high)
        audit(archive, desk, out, AuditOptions(), chain=FollowedChain(CHAIN, watched, risks))
        assert {entry["risk"]["drift"] for entry in summary_of(out).values()} == {drift}
        assert {line["drift"] for line in bundle_lines(out, "risk.jsonl")} == {drift}


@pytest.mark.slow
def test_the_report_shows_the_worth_of_warnings_and_the_risks_of_sessions(
    desk: RuleSet, tmp_path: Path
) -> None:
    """A table of warnings, a line below the timelines, rises in words; without a chain there is none."""
    archive = (str(write(tmp_path / "events.parquet", rows(random_sessions(60, 36)))),)
    audit(archive, desk, tmp_path / "bundle", AuditOptions(), chain=chain_of(desk))
    page = (tmp_path / "bundle" / "report.html").read_text()
    assert "Warnings by rule" in page
    assert 'class="risk"' in page
    assert "desk/both: risk within 5 events, at most" in page or "desk/both for" in page
    assert re.search(r"The risk rose from \S+ % to \S+ % at event \d+: user:", page)
    sessions = bundle_lines(tmp_path / "bundle", "sessions.jsonl")
    for line in sessions:
        risks = [max((risk for risk in each["risks"] if risk), default=0) for each in line["risks"]]
        assert risks == sorted(risks, reverse=True)
        assert {each["within"] for each in line["risks"]} <= {WITHIN}
    audit(archive, desk, tmp_path / "plain", AuditOptions())
    assert "risk" not in (tmp_path / "plain" / "report.html").read_text()
    assert all("risks" not in line for line in bundle_lines(tmp_path / "plain", "sessions.jsonl"))
