"""The cost of explaining a session: `PYTHONPATH=. python benchmarks/evidence/explain.py [EVENTS]`.

Explains simulated conversations as one session by 20 of the shipped rules, and prints processor time.
Beside it stands the paper's recurrence, which computes each module for each pair of steps, written naively.
Its traces double while the next is expected to take less than a minute; the ratio is that of the last.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.rules.engine.judge import CompiledRules, compile_rule_set, label_columns
from tracline.rules.explanation.rule_status import assess
from tracline.rules.explanation.timeline import explanation_data, explanations
from tracline.rules.model.rule import Rule, RuleSet
from tracline.rules.packs.load import load_packs, shipped_packs

from tests.support.truth.status_modules import Modules

RULES = 20
BUDGET_S = 60.0
"""The processor time that the naive modules may take."""
GROWTH = 4
"""The limit of the ratio of times on a trace and on a half of it."""


def main() -> None:
    """Run the benchmark and print its figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rules = [replace(rule, for_each=None) for rule in load_packs(shipped_packs()).rules][:RULES]
    compiled = compile_rule_set(RuleSet(tuple(rules), {}))
    events = event_frame(conversations(Desk(sessions=count // 10, seed=1)))
    events = events.filter(pl.col("kind") != "end")[:count]
    events = events.with_columns(seq=pl.arange(1, len(events) + 1, dtype=pl.UInt32))
    labels = compiled.labeler.label(events.lazy(), keep=("seq",)).collect()
    labels = labels.select("seq", *label_columns(compiled))
    start = time.process_time()
    runs = list(explanations(compiled, labels, is_closed=True))
    whole = time.process_time() - start
    for run in runs:
        explanation_data(run, {})
    parts = sum(len(run.status.parts) for run in runs)
    print(f"{len(labels):,} events, {len(runs)} rules, {parts} parts: {whole:.2f} s")
    print(f"  with the JSON's data: {time.process_time() - start:.2f} s")
    traces = {rule.id: traced(compiled, labels, rule) for rule in rules}
    steps, naive = 50, 0.0
    while steps <= count // 2 and naive * GROWTH < BUDGET_S:
        steps *= 2
        naive = seconds_of_modules(rules, {name: trace[:steps] for name, trace in traces.items()})
        print(f"the paper's modules on {steps:,} steps: {naive:.2f} s")
    start = time.process_time()
    for rule in rules:
        assess(rule.formula, traces[rule.id][:steps], rule.transitions)
    ours = time.process_time() - start
    print(f"on {steps:,} steps: {ours:.3f} s, {naive / ours:,.0f} times less")


def traced(compiled: CompiledRules, labels: pl.DataFrame, rule: Rule) -> tuple[frozenset[str], ...]:
    """Return the propositions of a rule that are true at each event."""
    bits = {name: compiled.propositions[rule.pack, name] for name in rule.propositions}
    words = labels.select(f"t{word}" for word in range(compiled.labeler.words)).rows()
    return tuple(
        frozenset(name for name, bit in bits.items() if row[bit // 64] >> bit % 64 & 1) for row in words
    )


def seconds_of_modules(rules: Sequence[Rule], traces: dict[str, tuple[frozenset[str], ...]]) -> float:
    """Return the processor time of the naive modules on each rule's trace, from every start."""
    start = time.process_time()
    for rule in rules:
        modules = Modules(traces[rule.id], rule.transitions)
        for t0 in range(1, len(traces[rule.id]) + 1):
            modules.timesets(rule.formula, t0)
    return time.process_time() - start


if __name__ == "__main__":
    main()
