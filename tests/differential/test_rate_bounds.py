"""Bounds of rates: whatever content an outage loses, the rate with all content lies within them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.model.rule import Rule
from tracline.rules.packs.load import pack_text
from tracline.rules.reference.semantics import LabelledEvent, judge_session
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.records.session_status import SessionCount
from tracline.stream.messages.session_state import JudgingState
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from ..support import event_rows

PACK = """
pack: shop
version: 1
propositions:
  ask: kind == "user" and text contains "?"
  answer: kind == "assistant"
  secret: kind == "assistant" and text matches /secret/
  pay: kind == "tool_call" and tool == "pay"
  large: kind == "tool_call" and tool == "pay" and args.amount > 100
  paid: kind == "tool_result" and result.status == "paid"
rules:
  - {id: no-secret, formula: always not secret}
  - {id: answered, formula: always (ask -> eventually answer)}
  - {id: asked-first, formula: always (pay -> once ask)}
  - {id: large-is-paid, formula: always (large -> eventually paid)}
  - {id: once-an-order, for_each: args.order, formula: 'always (pay -> at_most[1] pay)'}
  - {id: ends-paid, applies_to: pay, recover: none, formula: eventually paid}
  - {id: few-steps, steps: ask or paid, formula: always (ask -> weak_next paid)}
"""
RULES = pack_text(PACK)
SESSIONS = 8
"""Sessions of an outage."""


@dataclass(frozen=True)
class FullSession:
    """A session with all its content: its rows, and what is true at each event as plain Python sees it."""

    rows: list[dict]
    seen: list[LabelledEvent]


def full_event(random: Random) -> tuple[dict, LabelledEvent]:
    """Return the columns of an event, and its label."""
    kind = random.choice(["user", "assistant", "tool_call", "tool_result"])
    if kind in ("user", "assistant"):
        text = random.choice(["yes", "why?", "no secret", "a secret?"])
        names = [
            name
            for name, is_true in (
                ("ask", kind == "user" and "?" in text),
                ("answer", kind == "assistant"),
                ("secret", kind == "assistant" and "secret" in text),
            )
            if is_true
        ]
        return {"kind": kind, "text": text}, LabelledEvent(frozenset(names), frozenset(), None, False)
    tool, order = random.choice(["pay", "look"]), random.choice(["a", "b", None])
    amount, status = random.choice([50, 150]), random.choice(["paid", "open"])
    row = {"kind": kind, "tool": tool, "args": json.dumps({"amount": amount, "order": order})}
    if kind == "tool_result":
        names = ["paid"] if status == "paid" else []
        row["result"] = json.dumps({"status": status})
    else:
        names = [] if tool == "look" else ["pay", "large"] if amount > 100 else ["pay"]
    return row, LabelledEvent(frozenset(names), frozenset(), order, False)


def full_session(name: str, agent: str, random: Random) -> FullSession:
    """Return up to seven events of one agent."""
    events = [full_event(random) for _ in range(random.randint(1, 7))]
    start = event_rows.START + random.randrange(SESSIONS) * event_rows.NS
    rows = event_rows.session(name, *({**row, "agent": agent} for row, _ in events), start=start)
    return FullSession(rows, [label for _, label in events])


def without_content(rows: list[dict], random: Random, share: float, since: int) -> list[dict]:
    """Lose the content of that share of events, and of all from a time on."""
    lost = {"text": None, "args": None, "result": None, "content": "absent"}
    return [
        row | lost if row["kind"] != "end" and (row["time"] >= since or random.random() < share) else row
        for row in rows
    ]


def true_rate(rule: Rule, sessions: list[FullSession]) -> float | None:
    """Return the rate over whole sessions by the reference semantics, None where the rule never applies."""
    broken = applied = 0
    for session in sessions:
        judged = judge_session(rule, session.seen)
        bad = any(finding.verdict.value in ("violated", "unmet") for finding in judged.findings)
        broken += bad
        applied += bad or judged.applies is not None
    return broken / applied if applied else None


def random_outages(seeds: range) -> tuple[dict[str, list[FullSession]], list[dict]]:
    """Return whole sessions by agent, an agent for each seed, and all their rows after its outage."""
    random = Random(seeds.start)
    sessions: dict[str, list[FullSession]] = {}
    rows: list[dict] = []
    for seed in seeds:
        agent, share = f"agent-{seed}", random.choice([0.0, 0.0, 0.02, 0.1, 0.4])
        sessions[agent] = [full_session(f"{agent}-{n}", agent, random) for n in range(SESSIONS)]
        since = event_rows.START + random.choice([4, 9, 12, 1000]) * event_rows.NS
        for session in sessions[agent]:
            rows += without_content(session.rows, random, share, since)
    return sessions, rows


def check_outages(folder: Path, seeds: range) -> dict[str, int]:
    """Simulate an outage for each seed, check its bounds, and count: all of them, loose and exact ones."""
    sessions, rows = random_outages(seeds)
    archive = event_rows.write(folder / "archive" / "events.parquet", rows).parent
    summary = audit(archive, RULES, folder / "bundle", AuditOptions()).summary
    counts = dict.fromkeys(("outages", "rates", "exact", "loose", "uncertain"), 0)
    for agent, whole in sessions.items():
        counts["outages"] += 1
        for rule in RULES.rules:
            check_rate(summary["rules"][rule.id]["by_agent"].get(agent), true_rate(rule, whole), counts)
    return counts


def check_rate(row: Mapping | None, truth: float | None, counts: dict[str, int]) -> None:
    """Check that the truth is within the bounds, and that the bounds are one number if all is judged."""
    rate = row and row["rate"]
    if truth is None:
        # Where the rule may have applied it is unknown; where it did not, there is no rate.
        assert not rate or row["sessions_possible"] or row["sessions_uncertain"]
        return
    assert rate is not None
    assert rate["low"] - 1e-9 <= truth <= rate["high"] + 1e-9, (row, truth)
    is_exact = not (row["sessions_possible"] or row["sessions_uncertain"])
    if is_exact:
        assert rate["low"] == rate["high"] == pytest.approx(truth, abs=1e-9)
    counts["rates"] += 1
    counts["exact" if is_exact else "loose"] += 1
    counts["uncertain"] += row["sessions_uncertain"] > 0


def test_the_truth_lies_within_the_bounds_in_every_outage(tmp_path: Path) -> None:
    """In 60 simulated outages of content capture, the rate with all content is within each rule's bounds."""
    counts = check_outages(tmp_path, range(60))
    assert counts["outages"] == 60
    assert counts["exact"] > 50
    assert counts["loose"] > 150
    assert counts["uncertain"] > 20


@pytest.mark.exhaustive
def test_the_truth_lies_within_the_bounds_of_a_thousand_outages(tmp_path: Path) -> None:
    """The same in 1,000 outages, whose counts are printed."""
    counts = check_outages(tmp_path, range(1_000, 2_000))
    print(counts)
    assert counts["outages"] == 1_000


def test_one_violation_in_ten_sessions_without_their_last_message(tmp_path: Path) -> None:
    """The rate is 10 % to 100 %, not 100 %: a violating session and unjudged ones stay in the denominator."""
    rows = [
        row
        for number in range(10)
        for row in event_rows.session(
            f"s{number}",
            {"kind": "assistant", "text": "a secret" if number == 0 else "hello"},
            {"kind": "assistant", "text": None, "content": "absent"},
        )
    ]
    archive = event_rows.write(tmp_path / "archive" / "events.parquet", rows).parent
    counts = audit(archive, RULES, tmp_path / "bundle", AuditOptions()).summary["rules"]["no-secret"]
    assert (counts["sessions_violating"], counts["sessions_applicable"]) == (1, 1)
    assert (counts["sessions_unjudged"], counts["sessions_possible"]) == (10, 9)
    assert counts["rate"] == {"low": 0.1, "high": 1.0}


def live_counts(rows: list[dict]) -> Counter[tuple[str, str, SessionCount]]:
    """Return the sessions that the metrics count by agent and rule, judged live in batches of five events."""
    events = [
        Event(**{**row, "kind": Kind(row["kind"]), "content": Content(row.get("content", "captured"))})
        for row in rows
    ]
    states = {event.session_id: JudgingState() for event in events}
    batches = [events[begin : begin + 5] for begin in range(0, len(events), 5)]
    verdicts = RuleSetJudge(compile_rule_set(RULES)).judge(states, batches).verdicts
    counts: Counter[tuple[str, str, SessionCount]] = Counter()
    for change in (change for batch in verdicts for change in batch.statuses):
        agent = change.session_id.rpartition("-")[0]
        counts.update((agent, change.rule or "", count) for count in change.counts)
    return counts


def test_the_truth_lies_within_the_bounds_of_live_counts() -> None:
    """In 60 outages, the rate with all content is within the bounds that the metrics give."""
    sessions, rows = random_outages(range(60))
    counts, uncertain = live_counts(rows), 0
    for agent, whole in sessions.items():
        for rule in RULES.rules:
            truth = true_rate(rule, whole)
            found = {count: counts[agent, rule.id, count] for count in SessionCount}
            uncertain += found[SessionCount.UNCERTAIN]
            if truth is None:
                continue
            violating, count = found[SessionCount.VIOLATING], found[SessionCount.SESSIONS]
            most, certain = violating + found[SessionCount.POSSIBLE], count - found[SessionCount.UNCERTAIN]
            assert violating <= truth * count + 1e-9, (agent, rule.id, truth, found)
            assert truth * certain <= most + 1e-9, (agent, rule.id, truth, found)
    assert uncertain > 20
