"""Following the unknown against trying every completion, on every small formula and every short session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from tracline.rules.compiler.compile import compile_formula, compile_rule
from tracline.rules.engine import kernel, kernel_loop
from tracline.rules.engine.closing import become_unjudged, close_sessions
from tracline.rules.engine.letters import LabelWords, letters
from tracline.rules.engine.monitor import Monitor
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.formula import Formula
from tracline.rules.model.machine import (
    APPLIES,
    SATISFIED,
    STAYS_SATISFIED,
    STAYS_VIOLATED,
    VERDICT_MASK,
    VERDICTS,
    VIOLATED,
    Machine,
)
from tracline.rules.model.predicate import Literal, Path
from tracline.rules.model.printer import to_text
from tracline.rules.model.rule import Rule, SliceKey
from tracline.rules.reference.slow_stepper import SteppedEvent, judge_slowly
from tracline.schemas.verdict import Recover, Verdict

from ..support.formulas import accepted, is_accepted, of_size
from ..support.truth.followed import readings_of

NAMES = ("p", "q")
EVENTS_MAX, UNKNOWN_MAX, NODES_MAX = 4, 2, 3
TRUE, FALSE, OPEN = "tfu"
LABELS = tuple(product((FALSE, TRUE, OPEN), repeat=len(NAMES)))
"""The labels of an event: each of two propositions is false, true or unknown."""
STEPS = (None, "p or q", "r", "not r", "r -> p")
KINDS = {1: Verdict.VIOLATED, 2: Verdict.SATISFIED, **dict.fromkeys((4, 5, 6), Verdict.UNJUDGED)}
CHUNK = 200
"""Rules that are judged together."""


@dataclass(frozen=True)
class Sessions:
    """Sessions of one length, as rows of numbers of `LABELS`, and the completions of each.

    A completion is a row of machine words; a session with fewer than four has its first one again.
    """

    labels: Any
    completions: Any


@cache
def sessions(length: int, most: int) -> Sessions:
    """Return all sessions of a length with at most that many unknown propositions."""
    found: list[tuple[int, ...]] = []
    completions: list[list[tuple[int, ...]]] = []
    for session in product(range(len(LABELS)), repeat=length):
        if sum(LABELS[label].count(OPEN) for label in session) <= most:
            every = list(product(*(words_of(LABELS[label]) for label in session)))
            found.append(session)
            completions.append(every + [every[0]] * (2**most - len(every)))
    return Sessions(np.array(found), np.array(completions))


def words_of(label: tuple[str, ...]) -> list[int]:
    """Return the words of the completions of an event's label; bit `i` is the i-th name."""
    values = [(0, 1) if truth == OPEN else (int(truth == TRUE),) for truth in label]
    return [sum(value << bit for bit, value in enumerate(each)) for each in product(*values)]


def label_words() -> LabelWords:
    """Return `LABELS` as the words that the labeler packs."""
    true = [sum((truth == TRUE) << bit for bit, truth in enumerate(label)) for label in LABELS]
    unknown = [sum((truth == OPEN) << bit for bit, truth in enumerate(label)) for label in LABELS]
    return LabelWords(*(np.array(words, dtype=np.uint64)[:, None] for words in (true, unknown)))


@dataclass(frozen=True)
class Outcome:
    """Results of a rule on sessions: kinds of findings by session and event, closings, where it applies."""

    kinds: Any
    closings: Any
    applies: Any
    may_apply: Any


def by_completions(machine: Machine, chosen: Sessions) -> Outcome:
    """Return the outcome of stepping every completion separately."""
    words = np.array(
        [
            machine.word([n for bit, n in enumerate(NAMES) if word >> bit & 1])
            for word in range(1 << len(NAMES))
        ]
    )
    letters_of = np.frombuffer(machine.letters, dtype=np.uint8)[words]
    following, output = np.array(machine.next), np.array(machine.output)
    closing = np.array([kernel.CLOSING.index(verdict) for verdict in machine.closing])
    # An axis of few completions comes first: numpy reduces the first axis faster than a short last one.
    read = letters_of[chosen.completions.transpose(2, 1, 0)]
    length, _, count = read.shape
    state = np.zeros(read.shape[1:], dtype=np.int64)
    kinds = np.zeros((count, length + 1), dtype=np.uint8)
    applies, may_apply, undecided = (np.zeros(count, dtype=bool) for _ in range(3))
    for at in range(length):
        outputs = output[state, read[at]]
        state = following[state, read[at]]
        code = outputs & VERDICT_MASK
        is_new = ((code == VIOLATED) | (code == SATISFIED)).any(axis=0)
        violated = (code == VIOLATED) | (code == STAYS_VIOLATED)
        satisfied = (code == SATISFIED) | (code == STAYS_SATISFIED)
        split = violated.any(axis=0) & ~violated.all(axis=0)
        kinds[violated.all(axis=0) & is_new, at] = kernel_loop.FOUND_VIOLATED
        kinds[satisfied.all(axis=0) & is_new, at] = kernel_loop.FOUND_SATISFIED
        kinds[split & ~undecided, at] = kernel_loop.FOUND_UNKNOWN
        undecided |= split
        applies |= (outputs & APPLIES != 0).all(axis=0)
        may_apply |= (outputs & APPLIES != 0).any(axis=0)
    ends = closing[state]
    closings = np.where((ends == ends[:1]).all(axis=0), ends[0], 0)
    unmet = ends == kernel.CLOSING_UNMET
    unsettled = unmet.any(axis=0) & ~unmet.all(axis=0) & ~undecided
    kinds[unsettled, length] = kernel_loop.FOUND_UNSETTLED
    return Outcome(kinds, closings, applies, may_apply)


def by_kernel(formulas: list[Formula], recover: Recover, chosen: Sessions) -> list[Outcome]:
    """Return the outcomes of the kernel, one for each formula."""
    both = dict.fromkeys(NAMES, Literal(True))
    rules = [Rule("pack", str(i), "", f, "", both, recover=recover) for i, f in enumerate(formulas)]
    machines = [compile_formula(formula, recover=recover) for formula in formulas]
    follows = [True] * len(rules)
    program = kernel.lay_out(machines, [False] * len(rules), [None] * len(rules), follows)
    bits = {("pack", name): bit for bit, name in enumerate(NAMES)}
    table = letters(program, rules, machines, bits, label_words())
    count, length = chosen.labels.shape
    rows = kernel.Rows(
        words=chosen.labels.T.ravel().astype(np.int32),
        slots=np.tile(np.arange(count, dtype=np.int32), length),
        stamps=np.repeat(np.arange(length), count),
        slices=np.empty((count * length, 0), np.int32),
    )
    memory = kernel.remember(program, count, 0)
    kinds = np.zeros((len(rules), count, length + 1), np.uint8)
    for found in kernel.judge(program, table, rows, memory):
        assert not kinds[found.columns, found.slots, found.stamps].any()
        kinds[found.columns, found.slots, found.stamps] = found.kinds
    closed, unsettled = close_sessions(program, memory, np.arange(count, dtype=np.int32))
    unsettled = become_unjudged(memory, unsettled)
    kinds[unsettled.columns, unsettled.slots, length] = unsettled.kinds
    closings = np.zeros((len(rules), count), np.uint8)
    closings[closed.columns, closed.slots] = closed.kinds
    applies = kernel.applies(memory).T, kernel.may_apply(memory).T
    return [Outcome(*each) for each in zip(kinds, closings, *applies, strict=True)]


def compare(formulas: list[Formula], events_max: int, unknown_max: int) -> tuple[int, int]:
    """Compare the kernel with trying every completion; return the numbers of sessions and of findings."""
    compared = findings = 0
    for recover, length in product(Recover, range(1, events_max + 1)):
        chosen = sessions(length, unknown_max)
        for begin in range(0, len(formulas), CHUNK):
            chunk = formulas[begin : begin + CHUNK]
            for formula, found in zip(chunk, by_kernel(chunk, recover, chosen), strict=True):
                expected = by_completions(compile_formula(formula, recover=recover), chosen)
                for name in ("kinds", "closings", "applies", "may_apply"):
                    left, right = getattr(expected, name), getattr(found, name)
                    assert np.array_equal(left, right), (to_text(formula), recover, name, length)
                compared += len(chosen.labels)
                findings += int(np.count_nonzero(found.kinds))
    return compared, findings


def small(nodes: int) -> list[Formula]:
    """Return the accepted formulas of up to that many nodes."""
    return [formula for size in range(1, nodes + 1) for formula in of_size(size) if is_accepted(formula)]


def test_following_is_trying_every_completion() -> None:
    """All formulas of up to three nodes, all sessions of up to four events with up to two unknowns."""
    formulas = small(NODES_MAX)
    compared, findings = compare(formulas, EVENTS_MAX, UNKNOWN_MAX)
    print(
        f"following = every completion: {len(formulas)} formulas x 3, {compared} sessions, {findings} found"
    )
    each = sum(len(sessions(length, UNKNOWN_MAX).labels) for length in range(1, EVENTS_MAX + 1))
    assert compared == len(formulas) * 3 * each
    assert findings > compared // 2


@pytest.mark.slow
@pytest.mark.exhaustive
def test_following_is_trying_every_completion_of_larger_formulas() -> None:
    """All formulas of up to four nodes, all sessions of up to four events with up to three unknowns."""
    formulas = list(accepted())
    compared, findings = compare(formulas, EVENTS_MAX, UNKNOWN_MAX + 1)
    print(
        f"following = every completion: {len(formulas)} formulas x 3, {compared} sessions, {findings} found"
    )


def test_monitors_follow_every_completion() -> None:
    """Verdicts, breaches and closings of all formulas of two nodes agree, on sessions of three events."""
    compared = 0
    chosen = sessions(3, UNKNOWN_MAX)
    for formula, recover in product(small(2), Recover):
        machine = compile_formula(formula, recover=recover)
        for labels, completions in zip(chosen.labels.tolist(), chosen.completions.tolist(), strict=True):
            monitor, runs = Monitor(formula, recover), [(0, False)] * len(completions)
            for at, label in enumerate(labels):
                steps = [
                    machine.step(s, word_of(machine, c[at]))
                    for (s, _), c in zip(runs, completions, strict=True)
                ]
                verdicts = {VERDICTS[output & VERDICT_MASK] for _, output in steps}
                names = dict(zip(NAMES, LABELS[label], strict=True))
                verdict = monitor.step(
                    {n for n in NAMES if names[n] == TRUE}, unknown={n for n in NAMES if names[n] == OPEN}
                )
                assert monitor.possible == verdicts
                assert verdict is (next(iter(verdicts)) if len(verdicts) == 1 else Verdict.PENDING)
                runs = [
                    (s, b or VERDICTS[o & VERDICT_MASK] is Verdict.VIOLATED)
                    for (s, o), (_, b) in zip(steps, runs, strict=True)
                ]
            broken = {was for _, was in runs}
            closings = {machine.closing[state] for state, _ in runs}
            unsettled = Verdict.UNJUDGED if Verdict.UNMET in closings else None
            assert monitor.close() is (closings.pop() if len(closings) == 1 else unsettled)
            assert monitor.broken == (
                "possible" if len(broken) > 1 else "certain" if broken == {True} else "no"
            )
            compared += 1
    print(f"monitors = every completion: {compared} sessions")
    assert compared == len(small(2)) * 3 * len(chosen.labels)


def word_of(machine: Machine, word: int) -> int:
    """Return the machine's word of a word over `NAMES`."""
    return machine.word([name for bit, name in enumerate(NAMES) if word >> bit & 1])


def test_a_monitor_that_stops_is_unjudged_from_an_unknown_on() -> None:
    """It follows nothing, whatever the unknown decides; names that the formula does not use are known."""
    monitor = Monitor("always (p -> once q)", unknown="stop")
    assert monitor.step({"q"}, unknown={"other"}) is Verdict.PENDING
    assert monitor.step(set(), unknown={"p"}) is Verdict.UNJUDGED
    assert monitor.step(set()) is Verdict.UNJUDGED
    assert monitor.close() is Verdict.UNJUDGED


def random_rule(random: Random) -> Rule:
    """Return a rule with a formula of up to four nodes, and perhaps `steps`, `applies_to` and slices."""
    steps, applies_to = random.choice(STEPS), random.choice((None, "q", "once p"))
    return Rule(
        pack="pack",
        id="rule",
        title="",
        formula=random.choice(accepted()),
        text="",
        propositions=dict.fromkeys("pqr", Literal(True)),
        recover=random.choice(list(Recover)),
        for_each=random.choice((None, SliceKey((Path("call_id"),), joint=False))),
        steps=parse_formula(steps) if steps else None,
        applies_to=parse_formula(applies_to) if applies_to else None,
    )


def random_labels(random: Random) -> list[tuple[frozenset[str], frozenset[str], str | None]]:
    """Return the true and the unknown propositions of each event of a session, and its slice value."""
    found: list[tuple[frozenset[str], frozenset[str], str | None]] = []
    for _ in range(random.randint(1, 8)):
        unknown = frozenset(name for name in "pqr" if random.random() < 0.15)
        true = frozenset(name for name in "pqr" if random.random() < 0.4) - unknown
        found.append((true, unknown, random.choice((None, None, "a", "b"))))
    return found


Found = list[tuple[int, str | None, Verdict]]


def by_engine(rule: Rule, machine: Machine, labels: Sequence[Any]) -> tuple[Found, Found, list[bool]]:
    """Return findings, closings, and whether the rule applies, may apply and is judged, by the kernel."""
    keys = [None if rule.for_each is None else 0]
    program = kernel.lay_out([machine], [rule.steps is not None], keys, [True])
    bits = {("pack", name): bit for bit, name in enumerate("pqr")}
    packed = [[sum(1 << "pqr".index(n) for n in names) for names in label[:2]] for label in labels]
    words = np.array(packed, dtype=np.uint64)
    table = letters(program, [rule], [machine], bits, LabelWords(words[:, :1], words[:, 1:]))
    values = sorted({label[2] for label in labels} - {None})
    slices = [[values.index(label[2]) if label[2] else kernel_loop.NO_SLICE] for label in labels]
    count = len(labels)
    rows = kernel.Rows(
        words=np.arange(count, dtype=np.int32),
        slots=np.zeros(count, np.int32),
        stamps=np.arange(count),
        slices=np.array(slices, dtype=np.int32)[:, : program.keys],
    )
    memory = kernel.remember(program, 1, len(values))
    found = kernel.join(kernel.judge(program, table, rows, memory))
    closed, unsettled = close_sessions(program, memory, np.zeros(1, np.int32))
    found = kernel.join([found, become_unjudged(memory, unsettled)])
    named = dict(enumerate(values)) | {kernel_loop.NO_SLICE: None}
    judged = [
        (s, named[x], KINDS[k]) for s, x, k in zip(found.stamps, found.slices, found.kinds, strict=True)
    ]
    ends = [
        (s, named[x], kernel.CLOSING[k])
        for s, x, k in zip(*closed.arrays[:1], *closed.arrays[3:], strict=True)
    ]
    masks = kernel.applies(memory), kernel.may_apply(memory), ~kernel.unjudged(memory)
    return judged, ends, [bool(mask.item()) for mask in masks]


def test_letters_and_kernel_follow_as_the_reference_does() -> None:
    """Findings, closings and applicability agree on 4,000 sessions with `steps`, slices and unknowns."""
    random, counts = Random(11), Counter[str]()
    for _ in range(1_000):
        rule = random_rule(random)
        machine = compile_rule(rule)
        for _ in range(4):
            labels = random_labels(random)
            events = [
                SteppedEvent(true, value=value, readings=readings_of(rule, true, unknown))
                for true, unknown, value in labels
            ]
            slow = judge_slowly(machine, events, sliced=rule.for_each is not None)
            expected = [sorted(map(repr, map(astuple, part))) for part in (slow.findings, slow.closing)]
            found, closed, applies = by_engine(rule, machine, labels)
            plain = [[(int(at), value, verdict) for at, value, verdict in part] for part in (found, closed)]
            assert [sorted(map(repr, part)) for part in plain] == expected, (rule, labels)
            assert applies == [slow.applies, slow.may_apply, slow.judged], (rule, labels)
            counts.update(["sessions", *(verdict.value for _, _, verdict in (*found, *closed))])
    print(f"letters and kernel = reference: {dict(counts)}")
    assert counts["sessions"] == 4_000
    assert min(counts[name] for name in ("violated", "satisfied", "unjudged", "held", "unmet")) > 60, counts
