"""The checker's derivation of verdicts against the reference, on lines of certificates made from sessions."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from tracline.batch.evidence.certificates import rule_line
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.digest import rule_digest, slice_key_content
from tracline.rules.model.rule import Rule
from tracline.rules.reference.semantics import LabelledEvent, judge_session
from tracline.schemas.verdict import Verdict

from ..support.checker import checker
from ..support.formulas import sample_of
from .samples import Sample, samples
from .test_sessions import KEY, _rule, _session

Found = set[tuple[int, str | None, str]]
"""Verdicts: the `seq` of the event, the slice, and the verdict."""

BREACHES = (Verdict.VIOLATED, Verdict.UNMET)
NAMES = ("p", "q", "r")
HEAD = {"propositions": [["pack", name] for name in NAMES], "keys": [slice_key_content(KEY)]}


def session_line(events: list[LabelledEvent], closed: bool) -> dict[str, Any]:
    """Return the line of a session, written without the product's code."""
    words = [
        [[NAMES.index(n) for n in sorted(group)] for group in (event.true - event.unknown, event.unknown)]
        for event in events
    ]
    values = sorted({event.slice for event in events if event.slice is not None})
    numbers = [
        -2 if event.slice_unknown else -1 if event.slice is None else values.index(event.slice)
        for event in events
    ]
    return {
        "session_id": "s",
        "occurrence": "2026-01-01T00:00:00.000000000Z",
        "rule_set": None,
        "closed": closed,
        "words": words,
        "values": [values],
        "events": [[at + 1, f"e{at}", at, value] for at, value in enumerate(numbers)],
    }


def meant(rule: Rule, events: list[LabelledEvent], closed: bool) -> Found:
    """Return what the reference finds."""
    found = judge_session(rule, events, closed=closed).findings
    return {(f.event + 1, f.slice if f.sliced else None, f.verdict) for f in found if f.verdict in BREACHES}


def follows(rule: Any, line: dict[str, Any]) -> tuple[Found, int]:
    """Return what the checker derives, and the number of verdicts that only the table shows."""
    found = list(checker.derive(rule, "pack", HEAD, line))
    return {(event[0], value, verdict) for value, event, verdict, _ in found}, sum(
        not each[3] for each in found
    )


def checked_rule(rule: Rule) -> Any:
    """Return the rule as the checker reads it from its line."""
    return checker.Rule(rule_line(rule_digest(rule), [("pack", "rule")], rule, compile_rule(rule)))


def test_the_checker_derives_what_the_reference_finds() -> None:
    """By table and meaning, with slices, `steps`, unknown labels and every `recover`, in 6,400 sessions."""
    random, counts = Random(11), Counter[str]()
    pool = [*map(Sample, sample_of(4, 250, seed=5)), *random.sample(samples(), 150)]
    for sample in pool:
        for _ in range(2):
            rule = _rule(sample, random)
            checked = checked_rule(rule)
            for _ in range(8):
                events, closed = _session(random), random.random() < 0.8
                found, table_only = follows(checked, session_line(events, closed))
                assert found == meant(rule, events, closed), (str(rule.formula), rule, events)
                counts.update(["sessions", *(verdict for _, _, verdict in found)])
                counts["table only"] += table_only
    print(f"derived: {dict(counts)}")
    assert counts["sessions"] == 6_400
    assert min(counts["violated"], counts["unmet"]) >= 300
    assert counts["table only"] * 3 < counts["violated"]
