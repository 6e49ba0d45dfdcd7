"""The checker's derivation of verdicts against the reference, on lines of certificates made from sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tracline.batch.evidence.certificates import rule_line
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.digest import rule_digest, slice_key_content
from tracline.rules.model.rule import Rule, stopping
from tracline.rules.packs.load import load_packs
from tracline.rules.reference.semantics import LabelledEvent
from tracline.schemas.verdict import Unknown, Verdict

from ..support.checker import checker
from ..support.formulas import sample_of
from ..support.truth.followed import referenced
from .samples import Sample, samples
from .test_audit import PACK, random_archive
from .test_sessions import KEY, _rule, _session

Found = set[tuple[int, str | None, str]]
"""Verdicts: the `seq` of the event, the slice, and the verdict."""

BREACHES = (Verdict.VIOLATED, Verdict.UNMET)
NAMES = ("p", "q", "r")
FOLLOWED_STATES = 64
HEAD = {"propositions": [["pack", name] for name in NAMES], "keys": [slice_key_content(KEY)]}


def session_line(events: list[LabelledEvent], closed: bool, names: tuple[str, ...] = NAMES) -> dict[str, Any]:
    """Return the line of a session, written without the product's code."""
    words = [
        [
            [names.index(name) for name in sorted(group & set(names))]
            for group in (event.true - event.unknown, event.unknown)
        ]
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


def rule_of(sample: Sample, random: Random) -> Rule:
    """Return a rule that stops at an unknown or follows it, if its machine is small enough to follow."""
    rule = replace(_rule(sample, random), unknown=Unknown.STOP)
    is_small = len(compile_rule(rule).next) <= FOLLOWED_STATES
    return replace(rule, unknown=Unknown.FOLLOW) if is_small and random.random() < 0.5 else rule


def session_of(rule: Rule, random: Random) -> list[LabelledEvent]:
    """Return a session, with more unknown labels for a rule that follows."""
    events = _session(random)
    if rule.unknown is Unknown.FOLLOW:
        events = [
            replace(e, unknown=frozenset(name for name in NAMES if random.random() < 0.1)) for e in events
        ]
    return events


def meant(rule: Rule, events: list[LabelledEvent], closed: bool) -> Found:
    """Return what the reference finds; where the rule follows, what all completions agree on."""
    found = referenced(rule, events, closed=closed)
    return {(f.event + 1, f.slice, f.verdict) for f in found if f.verdict in BREACHES}


def follows(rule: Any, line: dict[str, Any]) -> tuple[Found, int]:
    """Return what the checker derives, and the number of verdicts that only the table shows."""
    found = list(checker.derive(rule, "pack", HEAD, line))
    return {(event[0], value, verdict) for value, event, verdict, _ in found}, sum(
        not each[3] for each in found
    )


def checked_rule(rule: Rule) -> Any:
    """Return the rule as the checker reads it from its line."""
    return checker.Rule(rule_line(rule_digest(rule), [("pack", "rule")], rule, compile_rule(rule)))


@pytest.mark.slow
def test_the_checker_derives_what_the_reference_finds() -> None:
    """By table and meaning, with slices, `steps`, unknown labels and every `recover`, in 6,400 sessions."""
    random, counts = Random(11), Counter[str]()
    pool = [*map(Sample, sample_of(4, 250, seed=5)), *random.sample(samples(), 150)]
    for sample in pool:
        for _ in range(2):
            rule = rule_of(sample, random)
            checked = checked_rule(rule)
            for _ in range(8):
                events, closed = session_of(rule, random), random.random() < 0.8
                found, table_only = follows(checked, session_line(events, closed))
                assert found == meant(rule, events, closed), (str(rule.formula), rule, events)
                counts.update(["sessions", *(verdict for _, _, verdict in found)])
                counts["table only"] += table_only
    print(f"derived: {dict(counts)}")
    assert counts["sessions"] == 6_400
    assert min(counts["violated"], counts["unmet"]) >= 300
    assert counts["table only"] * 3 < counts["violated"]


@dataclass(frozen=True)
class Certified:
    """A session with its rule, and the verdicts that a bundle states of it."""

    rule: Rule
    events: list[LabelledEvent]
    closed: bool
    stated: Found


def flip(random: Random, events: list[LabelledEvent]) -> list[LabelledEvent]:
    """Return the events with another label at one of them."""
    at, name = random.randrange(len(events)), random.choice(NAMES)
    old = events[at]
    if random.random() < 0.2:
        return [*events[:at], replace(old, unknown=old.unknown ^ {name}), *events[at + 1 :]]
    return [*events[:at], replace(old, true=old.true ^ {name}), *events[at + 1 :]]


def leave_out(random: Random, events: list[LabelledEvent]) -> list[LabelledEvent]:
    """Return the events without one of them."""
    at = random.randrange(len(events))
    return [*events[:at], *events[at + 1 :]]


def swap(random: Random, events: list[LabelledEvent]) -> list[LabelledEvent]:
    """Return the events with two of them exchanged."""
    at, to = random.randrange(len(events)), random.randrange(len(events))
    changed = list(events)
    changed[at], changed[to] = changed[to], changed[at]
    return changed


def move(random: Random, events: list[LabelledEvent]) -> list[LabelledEvent]:
    """Return the events with another slice at one of them, or an unknown one."""
    at = random.randrange(len(events))
    value = random.choice((None, "a", "b", "c"))
    changed = replace(events[at], slice=value, slice_unknown=random.random() < 0.2)
    return [*events[:at], changed, *events[at + 1 :]]


def restate(random: Random, stated: Found, length: int) -> Found:
    """Return the verdicts with one left out, added, or moved."""
    name = random.choice(("violated", "unmet"))
    added = {(random.randint(1, length), random.choice((None, None, "a", "b")), name)}
    gone = set(random.sample(sorted(stated, key=str), min(len(stated), 1)))
    return random.choice((stated - gone, stated | added, (stated - gone) | added))


EVENT_CHANGES = (flip, flip, leave_out, swap, move)


def changed(random: Random, certified: Certified) -> Certified:
    """Return a certificate with one change, whose digests and ids fit."""
    kind = random.randrange(len(EVENT_CHANGES) + 2)
    if kind < len(EVENT_CHANGES):
        return replace(certified, events=EVENT_CHANGES[kind](random, certified.events))
    if kind == len(EVENT_CHANGES):
        return replace(certified, closed=not certified.closed)
    return replace(certified, stated=restate(random, certified.stated, len(certified.events)))


def is_refused(checked: Any, certified: Certified) -> bool:
    """Return whether the checker refuses a certificate."""
    try:
        found, _ = follows(checked, session_line(certified.events, certified.closed))
    except SystemExit:
        return True
    return found != certified.stated


def certified_sessions(random: Random, count: int) -> Iterator[tuple[Any, Certified]]:
    """Yield sessions that have a verdict, with their rules as the checker reads them."""
    pool = [*map(Sample, sample_of(4, 250, seed=6)), *random.sample(samples(), 150)]
    done = 0
    while done < count:
        rule = rule_of(random.choice(pool), random)
        checked = checked_rule(rule)
        for _ in range(12):
            events, closed = session_of(rule, random), random.random() < 0.8
            stated = meant(rule, events, closed)
            if stated and done < count:
                done += 1
                yield checked, Certified(rule, events, closed, stated)


@pytest.mark.slow
def test_changed_certificates_are_refused_where_the_verdicts_no_longer_follow() -> None:
    """Of 10,000 changes the checker refuses exactly those after which the reference finds other verdicts."""
    random, counts = Random(12), Counter[str]()
    for checked, certified in certified_sessions(random, 2_500):
        for _ in range(4):
            new = changed(random, certified)
            refused = is_refused(checked, new)
            follows_still = meant(new.rule, new.events, new.closed) == new.stated
            assert refused != follows_still, (str(new.rule.formula), new)
            counts["refused" if refused else "accepted"] += 1
    print(f"changed certificates: {dict(counts)}")
    assert counts.total() == 10_000
    assert min(counts.values()) > 2_500


def damaged(machine: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the machine with each change of a single entry of `output` and `closing`."""
    for state, row in enumerate(machine["output"]):
        for letter, code in enumerate(row):
            for new in {0, 1, 2, 3, 4} - {code & 7}:
                output = [list(each) for each in machine["output"]]
                output[state][letter] = code & 8 | new
                yield {**machine, "output": output}
    for state, verdict in enumerate(machine["closing"]):
        for new in {"held", "unmet", None} - {verdict}:
            closing = list(machine["closing"])
            closing[state] = new
            yield {**machine, "closing": closing}


@pytest.mark.slow
def test_a_damaged_machine_shows_nothing_by_meaning(tmp_path: Path) -> None:
    """A verdict of such a machine is refused, or as the rule means, or shown by its table only."""
    (tmp_path / "shop.yaml").write_text(PACK)
    sessions, counts = random_archive(3, 40), Counter[str]()
    for rule in stopping(load_packs([tmp_path / "shop.yaml"])).rules:
        line = rule_line(rule_digest(rule), [("shop", rule.id)], rule, compile_rule(rule))
        names = tuple(rule.propositions)
        head = {"propositions": [["shop", name] for name in names], "keys": [line["content"]["for_each"]]}
        lines = [session_line(session.seen, session.closed, names) for session in sessions]
        stated = [meant(rule, session.seen, session.closed) for session in sessions]
        for machine in damaged(line["machine"]):
            checked = checker.Rule({**line, "machine": machine})
            for session, expected in zip(lines, stated, strict=True):
                try:
                    found = list(checker.derive(checked, "shop", head, session))
                except SystemExit:
                    counts["refused"] += 1
                    continue
                shown = {(event[0], value, verdict) for value, event, verdict, is_shown in found if is_shown}
                assert shown <= expected, (rule.id, machine, session)
                counts["table only" if len(shown) < len(found) else "as meant"] += 1
    print(f"damaged machines: {dict(counts)}")
    assert counts["refused"] > 1_000
