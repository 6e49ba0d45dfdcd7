"""The compiled kernel against the plain stepper, on random machines, sessions, slices and unknowns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from tracline.rules.engine import kernel, kernel_loop
from tracline.rules.engine.closing import become_unjudged, close_sessions
from tracline.rules.engine.kernel import known_letters
from tracline.rules.engine.status import status_of
from tracline.rules.engine.stepper import RuleEvent, RuleRun
from tracline.rules.model.machine import (
    APPLIES,
    PENDING,
    SATISFIED,
    STAYS_SATISFIED,
    STAYS_VIOLATED,
    VIOLATED,
    Machine,
)
from tracline.rules.reference.slow_stepper import SLICES_MAX as REFERENCE_SLICES_MAX
from tracline.rules.reference.slow_stepper import SteppedEvent, SteppedFinding, judge_slowly
from tracline.schemas.verdict import Verdict

NAMES = ("p", "q", "r")
VALUES = ("a", "b", "c", "d", "e")
SLICES_MAX = 3
FOLLOW, SKIP, UNKNOWN = 249, 250, 251

Key = tuple[int, int, int, str | None, Verdict]
"""A finding: session, rule, event, slice, verdict."""


@dataclass(frozen=True)
class Case:
    """Random rules over random sessions: `events[session][at][rule]` is what that rule meets there."""

    machines: list[Machine]
    stepped: list[bool]
    keys: list[int | None]
    follows: list[bool]
    events: list[list[list[SteppedEvent]]]
    order: list[tuple[int, int]]


def random_machine(random: Random) -> Machine:
    """Return a machine with arbitrary tables: the kernel must not rely on the compiler's output."""
    states, letters = random.randint(1, 6), random.randint(1, 4)
    outputs = [PENDING] * 4 + [VIOLATED, SATISFIED, STAYS_VIOLATED, STAYS_SATISFIED]
    rows, columns = range(states), range(letters)
    return Machine(
        propositions=NAMES,
        letters=bytes(random.randrange(letters) for _ in range(8)),
        next=tuple(tuple(random.randrange(states) for _ in columns) for _ in rows),
        output=tuple(
            tuple(random.choice(outputs) | random.choice((0, 0, APPLIES)) for _ in columns) for _ in rows
        ),
        closing=tuple(random.choice((None, Verdict.HELD, Verdict.UNMET)) for _ in rows),
        residual=("",) * states,
    )


def random_case(seed: int) -> Case:
    """Return rules of all three kinds over interleaved sessions, with two `for_each` keys."""
    random = Random(seed)
    rules = random.randint(1, 7)
    stepped = [random.random() < 0.4 for _ in range(rules)]
    drawn = [random.choice((None, None, 0, 1)) for _ in range(rules)]
    used = sorted({key for key in drawn if key is not None})
    keys = [None if key is None else used.index(key) for key in drawn]
    follows = [random.random() < 0.5 for _ in range(rules)]
    unknowns = random.choice((0.0, 0.02))
    events: list[list[list[SteppedEvent]]] = []
    for _ in range(random.randint(1, 5)):
        events.append(
            [random_event(random, stepped, keys, follows, unknowns) for _ in range(random.randint(0, 25))]
        )
    order = [(session, 0) for session, session_events in enumerate(events) for _ in session_events]
    random.shuffle(order)
    reached: Counter[int] = Counter()
    for i, (session, _) in enumerate(order):
        order[i] = (session, reached[session])
        reached[session] += 1
    return Case([random_machine(random) for _ in range(rules)], stepped, keys, follows, events, order)


def random_event(
    random: Random, stepped: list[bool], keys: list[int | None], follows: list[bool], unknowns: float
) -> list[SteppedEvent]:
    """Return one event as each rule reads it: rules share labels and slice values, and nothing else."""
    true = frozenset(name for name in NAMES if random.random() < 0.4)
    values = [random.choice((None, *VALUES)) for _ in range(2)]
    unreadable = [random.random() < unknowns for _ in range(2)]
    return [
        SteppedEvent(
            true=true,
            steps=random.choices((True, False, None), (1, 1, unknowns))[0] if steps else True,
            unknown=random.random() < unknowns,
            value=None if key is None else values[key],
            value_unknown=key is not None and unreadable[key],
            readings=random_readings(random, steps) if follow and random.random() < 0.05 else None,
        )
        for steps, key, follow in zip(stepped, keys, follows, strict=True)
    ]


def random_readings(random: Random, steps: bool) -> tuple[frozenset[str] | None, ...]:
    """Return some sets of true propositions that an event may have; with `steps` it may also be unseen."""
    sets = [frozenset(name for name in NAMES if random.random() < 0.5) for _ in range(random.randint(1, 3))]
    return (*sets, None) if steps and random.random() < 0.3 else tuple(sets)


def possible_letters(
    machine: Machine, readings: tuple[frozenset[str] | None, ...], skip: int
) -> tuple[int, ...]:
    """Return the letters of these readings, ascending."""
    found = {skip if true is None else machine.letters[machine.word(true)] for true in readings}
    return tuple(sorted(found))


def slowly(case: Case) -> tuple[Counter[Key], Counter[Key], set[tuple[int, int]]]:
    """Return the findings, the closings and the (session, rule) pairs that apply, by the plain stepper."""
    findings: Counter[Key] = Counter()
    closings: Counter[Key] = Counter()
    applying: set[tuple[int, int]] = set()
    for session, events in enumerate(case.events):
        for rule, machine in enumerate(case.machines):
            sliced = case.keys[rule] is not None
            outcome = judge_slowly(
                machine, [row[rule] for row in events], sliced=sliced, slices_max=SLICES_MAX
            )
            findings.update(keyed(session, rule, finding) for finding in outcome.findings)
            closings.update(keyed(session, rule, finding) for finding in outcome.closing)
            if outcome.applies:
                applying.add((session, rule))
    return findings, closings, applying


def keyed(session: int, rule: int, finding: SteppedFinding) -> Key:
    """Return the finding as one comparable value."""
    return session, rule, finding.at, finding.slice, finding.verdict


def quickly(
    case: Case, found_max: int
) -> tuple[Counter[Key], Counter[Key], set[tuple[int, int]], Counter[int]]:
    """Return the kernel's findings, closings and applying rules, and the number of findings by kind."""
    program = kernel.lay_out(case.machines, case.stepped, case.keys, case.follows)
    letters = np.zeros((len(case.order), program.columns), dtype=np.uint8)
    choice = np.zeros(letters.shape, dtype=np.int32)
    several: dict[tuple[int, ...], int] = {}
    slices = np.full((len(case.order), program.keys), kernel_loop.NO_SLICE, dtype=np.int32)
    slots: dict[tuple[int, int, str], int] = {}
    for i, (session, at) in enumerate(case.order):
        for column, rule in enumerate(program.order):
            event, machine = case.events[session][at][rule], case.machines[rule]
            key = case.keys[rule]
            if event.steps is False:
                letters[i, column] = program.skip[column]
            elif event.steps is None or event.unknown:
                letters[i, column] = program.unknown[column]
            elif event.readings is not None:
                found = possible_letters(machine, event.readings, int(program.skip[column]))
                letters[i, column] = program.follow[column] if len(found) > 1 else found[0]
                choice[i, column] = several.setdefault(found, len(several))
            else:
                letters[i, column] = machine.letters[machine.word(event.true)]
            if key is not None and event.value_unknown:
                slices[i, key] = kernel_loop.UNKNOWN_SLICE
            elif key is not None and event.value is not None:
                slices[i, key] = slots.setdefault((session, key, event.value), len(slots))
    names = {slot: value for (_, _, value), slot in slots.items()} | {kernel_loop.NO_SLICE: None}
    memory = kernel.remember(program, len(case.events), len(slots))
    rows = kernel.Rows(
        words=np.arange(len(case.order), dtype=np.int32),
        slots=np.array([session for session, _ in case.order], dtype=np.int32),
        stamps=np.array([at for _, at in case.order], dtype=np.int64),
        slices=slices,
    )
    bounds = np.cumsum([0, *map(len, several)])
    flat = np.array([letter for each in several for letter in each], dtype=np.uint8)
    table = kernel.LetterTable(letters, choice, bounds, flat, choice)
    verdicts = {1: Verdict.VIOLATED, 2: Verdict.SATISFIED, **dict.fromkeys((4, 5, 6), Verdict.UNJUDGED)}
    kinds: Counter[int] = Counter()
    findings: Counter[Key] = Counter()
    for found in kernel.judge(program, table, rows, memory, found_max=found_max, slices_max=SLICES_MAX):
        kinds.update(found.kinds.tolist())
        findings.update(keys_of(program, found, names, verdicts))
    closed, unsettled = close_sessions(program, memory, np.arange(len(case.events), dtype=np.int32))
    unsettled = become_unjudged(memory, unsettled)
    kinds.update(unsettled.kinds.tolist())
    findings.update(keys_of(program, unsettled, names, verdicts))
    closings = Counter(keys_of(program, closed, names, dict(enumerate(kernel.CLOSING))))
    where = np.argwhere(kernel.applies(memory)).tolist()
    return findings, closings, {(session, int(program.order[column])) for session, column in where}, kinds


def keys_of(program: kernel.Program, found: kernel.Findings, names: dict, verdicts: dict) -> list[Key]:
    """Return findings as comparable values."""
    columns = (found.slots, found.columns, found.stamps, found.slices, found.kinds)
    return [
        (slot, int(program.order[column]), stamp, names[slice_slot], verdicts[kind])
        for slot, column, stamp, slice_slot, kind in zip(*(c.tolist() for c in columns), strict=True)
    ]


@pytest.mark.parametrize("found_max", [1, 7, 1 << 16])
def test_the_kernel_finds_what_the_plain_stepper_finds(found_max: int) -> None:
    """Findings, closings and applicability agree on 300 random cases, for any size of the output buffer."""
    counts: Counter[int] = Counter()
    for seed in range(300):
        case = random_case(seed)
        slow = slowly(case)
        findings, closings, applying, kinds = quickly(case, found_max)
        assert (findings, closings, applying) == slow, f"seed {seed}"
        counts.update(kinds)
        counts["closings"] += sum(closings.values())
    least = {1: 3000, 2: 3000, 4: 300, 5: 900, 6: 5, "closings": 1500}
    assert all(counts[kind] >= count for kind, count in least.items()), counts


def test_the_stepper_reports_what_the_slow_stepper_finds() -> None:
    """Findings, closings and applicability of 300 random cases agree, rule by rule."""
    counts: Counter[str] = Counter()
    for seed in range(300):
        case = random_case(seed)
        found = Counter[Key](), Counter[Key](), set[tuple[int, int]]()
        for session, events in enumerate(case.events):
            for rule, machine in enumerate(case.machines):
                run = RuleRun(machine, SKIP, UNKNOWN, case.keys[rule] is not None, SLICES_MAX)
                reported, closings = stepped(run, [row[rule] for row in events])
                found[0].update((session, rule, *finding) for finding in reported)
                found[1].update((session, rule, *finding) for finding in closings)
                if run.applies is not None:
                    found[2].add((session, rule))
        findings, closings, applying = slowly(case)
        seen = Counter({key: count for key, count in closings.items() if key[2] >= 0})
        assert found == (findings, seen, applying), f"seed {seed}"
        counts.update(str(key[4]) for key in (*findings.elements(), *seen.elements()))
    assert min(counts[name] for name in ("violated", "satisfied", "unjudged", "held", "unmet")) > 300, counts


def stepped(run: RuleRun, events: list[SteppedEvent]) -> tuple[list[tuple], list[tuple]]:
    """Return the findings and the closings of one rule over one session, as event, slice and verdict."""
    reported: list[tuple] = []
    for at, event in enumerate(events):
        letter = run.machine.letters[run.machine.word(event.true)]
        if event.steps is not True:
            letter = UNKNOWN if event.steps is None else SKIP
        elif event.unknown:
            letter = UNKNOWN
        possible = () if event.readings is None else possible_letters(run.machine, event.readings, SKIP)
        if event.readings is not None and event.steps is True and not event.unknown:
            letter = possible[0] if len(possible) == 1 else FOLLOW
        was_judged = run.unjudged is None
        steps = run.step(RuleEvent(at, letter, event.value, event.value_unknown, possible))
        reported += [(at, step.slice, step.step.verdict) for step in steps if step.is_reported]
        if was_judged and run.unjudged is not None:
            reported.append((at, None, Verdict.UNJUDGED))
    closings = [(each.seq, each.last.slice, each.closing) for each in status_of(run)]
    unsettled = [seq for seq, _, verdict in closings if verdict is Verdict.UNJUDGED]
    if unsettled and run.unjudged is None:
        reported.append((min(unsettled), None, Verdict.UNJUDGED))
    return reported, [closing for closing in closings if closing[2] in (Verdict.HELD, Verdict.UNMET)]


def test_the_reference_states_the_limit_of_slices() -> None:
    """The reference imports nothing of the engine, and its limit is the engine's."""
    assert REFERENCE_SLICES_MAX == kernel.SLICES_MAX


def test_the_kernel_that_was_compared_is_compiled() -> None:
    """After a run the inner function holds machine code: the comparison above did not run it as Python."""
    quickly(random_case(0), 64)
    assert kernel_loop.judge_unsliced.nopython_signatures
    assert kernel_loop.judge_sliced.nopython_signatures


def test_sessions_may_be_cut_between_any_two_chunks_of_rows() -> None:
    """Judging rows in pieces with one memory finds what judging them at once finds."""
    case = random_case(11)
    program = kernel.lay_out(case.machines, case.stepped, case.keys)
    assert program.columns >= 1
    random = np.random.default_rng(5)
    count = 200
    letters = known_letters(
        random.integers(0, program.skip.min() + 1, (16, program.columns)).astype(np.uint8)
    )
    slices = np.full((count, program.keys), kernel_loop.NO_SLICE, dtype=np.int32)
    rows = kernel.Rows(
        words=random.integers(0, 16, count).astype(np.int32),
        slots=random.integers(0, 4, count).astype(np.int32),
        stamps=np.arange(count, dtype=np.int64),
        slices=slices,
    )
    whole = kernel.remember(program, 4, 0)
    at_once = [tuple(found.stamps) for found in kernel.judge(program, letters, rows, whole)]
    chunk_memory = kernel.remember(program, 4, 0)
    by_chunks: list[int] = []
    for begin in range(0, count, 13):
        cut = slice(begin, begin + 13)
        chunk = kernel.Rows(rows.words[cut], rows.slots[cut], rows.stamps[cut], rows.slices[cut])
        for found in kernel.judge(program, letters, chunk, chunk_memory):
            by_chunks.extend(found.stamps)
    assert tuple(by_chunks) == at_once[0]
    assert len(by_chunks) > 20
    assert (whole.state == chunk_memory.state).all()
