"""`tracline audit --as-judged` by a chain: crossings where the archive names the chain, and no others."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from random import Random

import polars as pl
import pytest
from tracline.archive.manifest import ManifestSource
from tracline.archive.rule_sets import write_rule_set
from tracline.archive.writer import CHAIN_COLUMN, RULES_COLUMN, archive_writer
from tracline.batch.audit.as_judged import audit_as_judged
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.verification.verify import VerificationRequest, verify
from tracline.predict.error import PredictError
from tracline.predict.following.followed_chain import FollowedChain
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import pack_text
from tracline.schemas.event import Content, Event, Kind
from tracline.stream.messages.session_state import JudgingState
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from ...support.chains.chains_by_symbol import CHAIN, chain_of
from ...support.chains.counted_archives import PACK, random_sessions, rows
from ...support.event_rows import write
from ...support.evidence.bundle_lines import bundle_lines

pytestmark = pytest.mark.slow

WHOLE = pack_text(PACK)
FEWER = pack_text("".join(line for line in PACK.splitlines(keepends=True) if "id: plain" not in line))
OTHER = pack_text(PACK.replace("pack: desk", "pack: other"))


def follow(rule_set: RuleSet) -> FollowedChain | None:
    """Return the chain of all rules as it follows a set."""
    chain = chain_of(WHOLE)
    names = {(rule.pack, rule.id) for rule in rule_set.rules}
    risks = {number: each for number, each in chain.risks.items() if (each.pack, each.rule) in names}
    return replace(chain, risks=risks) if risks else None


@dataclass
class Live:
    """Sessions judged live: the archive's rows with what judged and followed each, and the crossings."""

    rows: list[dict]
    rules: list[str]
    chains: list[str | None]
    crossings: dict[str, tuple[str, str, int]]


LACKING_FROM_TO = [(99, 99), (0, 99), (0, 2), (1, 3), (3, 99)]
"""The places from and before which the monitor lacks the chain."""


@dataclass
class Played:
    """A session's rows, the number of its rule set, when the chain is lacking, and what followed each row."""

    rows: list[dict]
    rule_set: int
    begin: int
    end: int
    chains: list[str | None] = field(default_factory=list[str | None])


def judged_live(seed: int, sets: Sequence[RuleSet] = (WHOLE, FEWER)) -> Live:
    """Judge sessions event by event, each under one of the sets; some monitors lack the chain for a while.

    The events of one place in all sessions are judged together, which gives the same (`test_continued.py`).
    """
    random, live = Random(seed), Live([], [], [], {})
    judges = [judges_of(rule_set) for rule_set in sets]
    played = [
        Played(rows([each]), random.choice(range(len(sets))), *random.choice(LACKING_FROM_TO))
        for each in random_sessions(60, seed)
    ]
    states = defaultdict[str, JudgingState](JudgingState)
    for number, rule_set, is_lacking in product(range(10), range(len(sets)), (False, True)):
        now = [
            each
            for each in played
            if number < len(each.rows)
            and (each.rule_set, each.begin <= number < each.end) == (rule_set, is_lacking)
        ]
        events = [event_of(each.rows[number]) for each in now]
        before = {event.session_id: states[event.session_id] for event in events}
        done = judges[rule_set][is_lacking].judge(before, [[event] for event in events])
        states |= done.states
        for each, event, verdicts in zip(now, events, done.verdicts, strict=True):
            each.chains.append(CHAIN if (event.session_id, event.occurrence) in done.followed else None)
            found = verdicts.crossings
            live.crossings |= {
                crossing.id: (event.session_id, crossing.rule, crossing.seq) for crossing in found
            }
    for each in played:
        live.rows += each.rows
        live.chains += each.chains
        live.rules += [rule_set_digest(sets[each.rule_set])] * len(each.rows)
    assert len(live.rows) == len(live.chains)
    return live


def judges_of(rule_set: RuleSet) -> tuple[RuleSetJudge, RuleSetJudge]:
    """Return what judges by a rule set with the chain, and without it."""
    compiled = compile_rule_set(rule_set)
    return RuleSetJudge(compiled, chain=follow(rule_set)), RuleSetJudge(compiled, lacking=CHAIN)


def event_of(row: dict) -> Event:
    """Return a row as an event."""
    return Event(**{**row, "kind": Kind(row["kind"]), "content": Content.CAPTURED})


def archived(live: Live, root: Path, chains: bool = True) -> Path:
    """Write the live archive."""
    frame = pl.read_parquet(write(root.with_name("rows.parquet"), live.rows))
    columns = [pl.Series(RULES_COLUMN, live.rules)]
    if chains:
        columns.append(pl.Series(CHAIN_COLUMN, live.chains, pl.String))
    with archive_writer(root) as writer:
        writer.write(frame.with_columns(columns), ManifestSource("kafka", "c" * 64), (0, 0))
    for rule_set in (WHOLE, FEWER, OTHER):
        write_rule_set(root, rule_set_digest(rule_set), rule_set.sources)
    return root


def without_risk(live: Live, is_lacking: Callable[[str | None], bool]) -> dict[str, int]:
    """Return the numbers of events without a live risk and of their sessions."""
    pairs = zip(live.rows, live.chains, strict=True)
    events = [row["session_id"] for row, chain in pairs if row["kind"] != "end" and is_lacking(chain)]
    return {"events_without_risk": len(events), "sessions_without_risk": len(set(events))}


@pytest.mark.parametrize("seed", range(4))
def test_crossings_as_judged_are_those_of_the_live_monitors(tmp_path: Path, seed: int) -> None:
    """By id, under several rule sets; nothing is computed from where a monitor lacked the chain."""
    live = judged_live(seed)
    root, bundle = archived(live, tmp_path / "live"), tmp_path / "bundle"
    found = audit_as_judged(root, bundle, AuditOptions(threads=2), follow=follow)
    lines = bundle_lines(bundle, "risk.jsonl")
    assert {line["id"] for line in lines} == live.crossings.keys()
    assert len(lines) == len(live.crossings) > 50
    assert found.summary["followed"] == without_risk(live, lambda chain: chain != CHAIN)
    assert found.summary["followed"]["events_without_risk"] > 50
    for entry in found.summary["rules"].values():
        warned = {s for s, rule, _ in live.crossings.values() if rule == entry["id"]}
        risk = entry["risk"]
        assert risk["sessions_warned"] <= len(warned)
        assert risk["warned_before"] + risk["missed"] <= entry["sessions_violating"]
    assert sum(entry["risk"]["missed"] for entry in found.summary["rules"].values()) > 0
    assert verify(bundle, VerificationRequest()).exit_code == 0
    audit_as_judged(root, tmp_path / "plain", AuditOptions())
    for name in ("verdicts.jsonl", "certificates.jsonl", "open.jsonl", "sessions.jsonl"):
        assert (bundle / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_a_plain_audit_by_a_chain_states_where_no_risk_was_computed_live(tmp_path: Path) -> None:
    """It follows every session all the same; without the column nothing is stated."""
    live = judged_live(5, [WHOLE])
    root = archived(live, tmp_path / "live")
    found = audit(root, WHOLE, tmp_path / "bundle", AuditOptions(), chain=chain_of(WHOLE))
    assert found.summary["followed"] == without_risk(live, lambda chain: chain != CHAIN)
    ids = {line["id"] for line in bundle_lines(tmp_path / "bundle", "risk.jsonl")}
    assert ids > live.crossings.keys()
    plain = archived(live, tmp_path / "plain", chains=False)
    audit(plain, WHOLE, tmp_path / "again", AuditOptions(), chain=chain_of(WHOLE))
    before, after = (
        json.loads((tmp_path / name / "summary.json").read_bytes()) for name in ("bundle", "again")
    )
    assert before.pop("followed")
    assert before == after
    assert {line["id"] for line in bundle_lines(tmp_path / "again", "risk.jsonl")} == ids


def test_an_archive_of_other_rules_than_those_of_the_chain_is_refused(tmp_path: Path) -> None:
    """As an audit by such rules is."""
    root = archived(judged_live(6, [OTHER]), tmp_path / "live")
    with pytest.raises(PredictError, match="TRL803"):
        audit_as_judged(root, tmp_path / "bundle", AuditOptions(), follow=follow)
    assert not (tmp_path / "bundle").exists()
