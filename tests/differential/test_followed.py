"""Crossings of sessions judged live, in any batches and from stored states, against an audit by the chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec
import orjson
import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.predict.following.followed_chain import FollowedChain
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.model.rule import RuleSet
from tracline.rules.packs.load import load_packs
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.records.risk_crossing import encode_crossing
from tracline.schemas.records.session_status import SessionStatus
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.stream.messages.session_state import JudgingState, SessionState, decode, encode
from tracline.stream.stages.rule_set_judge import BatchVerdicts, RuleSetJudge

from ..support.chains.chains_by_symbol import chain_of
from ..support.chains.counted_archives import PACK, random_sessions, rows
from ..support.event_rows import write
from ..support.evidence.bundle_lines import bundle_lines


@pytest.fixture
def desk(tmp_path: Path) -> RuleSet:
    """The rules of the pack."""
    file = tmp_path / "desk.yaml"
    file.write_text(PACK)
    return load_packs(file)


def events_of(session_rows: Sequence[dict]) -> list[Event]:
    """Return event rows as events."""
    return [
        Event(**{**row, "kind": Kind(row["kind"]), "content": Content(row.get("content", "captured"))})
        for row in session_rows
    ]


def interleaved(sessions: Sequence[Sequence[Event]], random: Random) -> Iterator[Event]:
    """Yield the events of sessions, each in its order."""
    waiting = [list(each) for each in sessions]
    while waiting:
        queue = random.choice(waiting)
        yield queue.pop(0)
        waiting = [each for each in waiting if each]


def stored(state: JudgingState) -> JudgingState:
    """Return the judging of a session whose state was stored and read."""
    return decode(encode(SessionState(SessionAssembler("a", 1), state))).judging


def judged(judge: RuleSetJudge, events: Sequence[Event], random: Random) -> list[BatchVerdicts]:
    """Judge events in polls of some messages, with stored states in between."""
    states: dict[str, JudgingState] = {}
    found: list[BatchVerdicts] = []
    begin = 0
    while begin < len(events):
        messages: list[Sequence[Event]] = []
        for _ in range(random.randint(1, 4)):
            size = random.randint(1, 12)
            messages.append(events[begin : begin + size])
            begin += size
        named = {event.session_id for message in messages for event in message}
        done = judge.judge({name: states.get(name, JudgingState()) for name in named}, messages)
        states |= {name: stored(state) for name, state in done.states.items()}
        found += done.verdicts
    return found


def lines_of(chain: FollowedChain, rule_set: RuleSet, archive: Path, out: Path) -> list[dict]:
    """Return the crossings of an audit."""
    audit((str(archive),), rule_set, out, AuditOptions(), chain=chain)
    return bundle_lines(out, "risk.jsonl")


@pytest.mark.parametrize("seed", range(4))
def test_live_crossings_are_those_of_an_audit(desk: RuleSet, tmp_path: Path, seed: int) -> None:
    """Whole records; the verdicts and the other statuses are those without a chain."""
    random, chain = Random(seed), chain_of(desk)
    session_rows = [rows([each]) for each in random_sessions(40, seed)]
    events = list(interleaved(list(map(events_of, session_rows)), random))
    compiled = compile_rule_set(desk)
    state = random.getstate()
    found = judged(RuleSetJudge(compiled, chain=chain), events, random)
    random.setstate(state)
    plain = judged(RuleSetJudge(compiled), events, random)
    archive = write(tmp_path / "events.parquet", [row for each in session_rows for row in each])
    wanted = lines_of(chain, desk, archive, tmp_path / "bundle")
    crossings = [orjson.loads(encode_crossing(each)) for batch in found for each in batch.crossings]
    assert len(crossings) > 50
    assert sorted(crossings, key=lambda each: each["id"]) == sorted(wanted, key=lambda each: each["id"])
    assert [batch.records for batch in found] == [batch.records for batch in plain]
    others = [
        [
            msgspec.structs.replace(each, is_followed=False)
            for each in batch.statuses
            if each.status is not SessionStatus.AT_RISK
        ]
        for batch in found
    ]
    assert others == [batch.statuses for batch in plain]
    warned = [
        (each.session_id, each.rule)
        for batch in found
        for each in batch.statuses
        if each.status is SessionStatus.AT_RISK
    ]
    assert len(warned) == len(set(warned))
    assert set(warned) == {(each["session_id"], each["rule"]) for each in wanted if each["level"] == "up"}


def test_an_occurrence_that_began_without_the_chain_is_not_followed(desk: RuleSet) -> None:
    """Its verdicts go on as before, and its next occurrence is followed."""
    compiled, chain = compile_rule_set(desk), chain_of(desk)
    first = events_of(rows(random_sessions(1, 5)))
    [whole] = RuleSetJudge(compiled).judge({first[0].session_id: JudgingState()}, [first]).verdicts
    before = RuleSetJudge(compiled).judge({first[0].session_id: JudgingState()}, [first[:2]])
    after = RuleSetJudge(compiled, chain=chain).judge(before.states, [first[2:]])
    found = [record.id for each in (before, after) for record in each.verdicts[0].records]
    assert sorted(found) == sorted(record.id for record in whole.records)
    assert not after.verdicts[0].crossings
    assert not after.followed


def test_the_current_risks_are_those_after_the_last_events(desk: RuleSet) -> None:
    """Each rule's risk is that of its last symbol; one with slices has that of each."""
    compiled, chain = compile_rule_set(desk), chain_of(desk)
    judge = RuleSetJudge(compiled, chain=chain)
    [session] = random_sessions(1, 8)
    events = [event for event in events_of(rows([session])) if event.kind is not Kind.END]
    [state] = judge.judge({events[0].session_id: JudgingState()}, [events]).states.values()
    risks = judge.risks(stored(state))
    plain = next(each for each in risks if each.rule == "plain")
    last = session.events[-1].symbol
    assert plain.context is not None
    assert (plain.within, plain.threshold) == (5, 0.5)
    assert plain.context.symbol == (last if last in ("user:p", "user:q", "user:p,q") else "unseen")
    assert {each.value for each in risks if each.rule == "sliced"} == {
        each.value for each in session.events if each.value is not None
    } or {None}
