"""Rates live and of an audit: console and metrics of `serve` count the sessions that an audit counts."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from prometheus_client import CollectorRegistry
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.schemas.records.violation_rate import ViolationRate, rate_of
from tracline.schemas.time import NS
from tracline.stream.console.queries import session_counts
from tracline.stream.console.rates import Window, series
from tracline.stream.process.shared_metrics import JudgingMetrics
from tracline.stream.serve.store import FILE

from ..support.conversations.days import day
from ..support.conversations.scripts import START_NS
from ..support.processes.live import IDLE_S, Live, schedule
from ..support.truth.conversations import write_pack

WINDOW = Window(START_NS - 24 * 3600 * NS, 24 * 7)
"""A window that has all event times."""
WORDS = """
pack: words
version: 1
propositions:
  asks: kind == "user" and text matches /a/
  says: kind == "assistant" and text matches /e/
  call: kind == "tool_call"
  lost: kind == "tool_call" and tool == "lost"
rules:
  - {id: asked-before, formula: always (says -> once asks)}
  - {id: no-call-after, formula: always (asks -> not once call)}
  - {id: never-lost, formula: always (asks -> not once lost)}
  - {id: no-word, formula: always not says}
"""
"""Rules on words: where content was not captured it is unknown whether they apply."""
Rule = tuple[str, str]


def audited(live: Live, packs: Sequence[Path], out: Path) -> dict[Rule, ViolationRate]:
    """Return the rates of an audit of the live archive, of the rules that may apply to a session."""
    found = audit(live.folder / "archive", load_packs(packs), out, AuditOptions(idle_s=IDLE_S))
    rates = {(entry["pack"], entry["id"]): rate_of(entry) for entry in found.summary["rules"].values()}
    return {rule: rate for rule, rate in rates.items() if rate.sessions}


def on_the_console(live: Live) -> dict[Rule, ViolationRate]:
    """Return the rates that the console shows for a window with all sessions."""
    with closing(sqlite3.connect(live.folder / "state" / FILE)) as db:
        counts = session_counts(db, WINDOW.since, WINDOW.until, WINDOW.hours * 3600 * NS)
        rules = dict.fromkeys((each.pack, each.rule) for each in counts)
        return {
            rule: series([each for each in counts if (each.pack, each.rule) == rule], WINDOW).total
            for rule in rules
        }


def in_metrics(live: Live) -> dict[Rule, Counter[str]]:
    """Return `tracline_rule_sessions_total` of each rule with sessions, by what it counts."""
    registry = CollectorRegistry()
    metrics = JudgingMetrics(registry, [(rule.pack, rule.id) for rule in live.compiled.rules])
    for batch in live.batches:
        metrics.count(batch.outputs)
    found: dict[Rule, Counter[str]] = {}
    for metric in registry.collect():
        for sample in metric.samples:
            if sample.name == "tracline_rule_sessions_total" and sample.value:
                rule = sample.labels["pack"], sample.labels["rule"]
                found.setdefault(rule, Counter())[sample.labels["counted"]] += int(sample.value)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [50, 51, 56])
def test_the_console_and_the_metrics_have_the_rates_of_an_audit(seed: int, tmp_path: Path) -> None:
    """After a day of sessions, some without content: the counts are equal, and so are the bounds of rates."""
    pack = write_pack(tmp_path)
    (tmp_path / "words.yaml").write_text(WORDS)
    packs, random = [pack, tmp_path / "words.yaml"], Random(seed)
    with closing(Live(tmp_path, compile_rule_set(load_packs(packs)))) as live:
        live.play(schedule(day(seed), random), random)
        live.finish()
        wanted = audited(live, packs, tmp_path / "out")
        shown, counted = on_the_console(live), in_metrics(live)
    assert set(wanted) == set(shown) == set(counted)
    assert any(rate.violating and rate.possible for rate in wanted.values())
    assert any(rate.uncertain for rate in wanted.values())
    for rule, rate in wanted.items():
        # The console has no count of its own for the uncertain ones.
        possible = rate.possible + rate.uncertain
        assert shown[rule] == ViolationRate(rate.violating, rate.clear, possible), rule
        check_metrics(rate, counted[rule])


def check_metrics(rate: ViolationRate, counted: Counter[str]) -> None:
    """Check that counters give the lower bound of a rate, and at least its upper bound.

    They cannot take back that a session was uncertain, or possible, when it later violates the rule.
    """
    assert (counted["sessions"], counted["violating"]) == (rate.sessions, rate.violating)
    assert counted["possible"] >= rate.possible
    assert counted["uncertain"] >= rate.uncertain
    certain, most = counted["sessions"] - counted["uncertain"], counted["violating"] + counted["possible"]
    assert rate.high is not None
    assert (min(1.0, most / certain) if certain else float(most > 0)) >= rate.high
