"""The kernel's specification: one rule over one session in plain Python, one event after another.

Tests compare `rules/engine/kernel.py` and `rules/engine/stepper.py` with it. It is slow and uses dictionaries
and names; it reads the same machine tables, `Machine.step` and `Machine.closing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...schemas.verdict import Verdict
from ..model.machine import APPLIES, PENDING, SATISFIED, VERDICT_MASK, VERDICTS, VIOLATED, Machine

SLICES_MAX = 1_000
"""Slices that one rule may have in one session. The reference states the limit itself."""


@dataclass(frozen=True, slots=True)
class SteppedEvent:
    """One event as one rule reads it.

    `true` names the propositions that hold. `steps` is the value of the rule's `steps`, None where that is
    unknown. `unknown` is true where another proposition of the rule is unknown. `value` is the event's slice
    value, None where it carries none; `value_unknown` is true where it has one that cannot be read.
    A rule that follows has `readings` instead of the first three: for each completion of what is unknown the
    propositions that hold, None where the rule does not see the event.
    """

    true: frozenset[str]
    steps: bool | None = True
    unknown: bool = False
    value: str | None = None
    value_unknown: bool = False
    readings: tuple[frozenset[str] | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class SteppedFinding:
    """A verdict, with the event's place in the session (from 0) and the slice."""

    at: int
    slice: str | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SlowJudgement:
    """The judgement of one session by one rule.

    The rule `applies` where it applies in every run at an event, and `may_apply` where it does in some run.
    """

    findings: tuple[SteppedFinding, ...]
    closing: tuple[SteppedFinding, ...]
    applies: bool
    may_apply: bool
    judged: bool


@dataclass(slots=True)
class _SliceRun:
    """The states that the machine may be in after the events of one slice."""

    states: frozenset[int]
    last: int


def judge_slowly(
    machine: Machine, events: Sequence[SteppedEvent], *, sliced: bool = False, slices_max: int = SLICES_MAX
) -> SlowJudgement:
    """Return the judgement of a whole session by the rule of this machine, satisfactions included."""
    valueless = _SliceRun(frozenset((0,)), last=-1)
    slices: dict[str, _SliceRun] = {}
    findings: list[SteppedFinding] = []
    applies = may_apply = undecided = False
    for at, event in enumerate(events):
        readings = (event.true,) if event.readings is None else event.readings
        if event.steps is False or set(readings) == {None}:
            continue
        value = event.value if sliced else None
        begins = value is not None and value not in slices
        stops = event.steps is None or event.unknown or (sliced and event.value_unknown)
        if stops or (begins and (len(slices) == slices_max or None in readings)):
            findings += [] if undecided else [SteppedFinding(at, None, Verdict.UNJUDGED)]
            return SlowJudgement(tuple(findings), (), applies, may_apply, judged=False)
        if value is not None and value not in slices:
            slices[value] = _SliceRun(valueless.states, last=-1)
        runs: dict[str | None, _SliceRun] = (
            {None: valueless, **slices} if value is None else {value: slices[value]}
        )
        for name, run in runs.items():
            outputs = _step(machine, run, readings)
            run.last = at
            applies = applies or all(output & APPLIES for output in outputs)
            may_apply = may_apply or any(output & APPLIES for output in outputs)
            if name is None and slices:
                continue
            verdict = _verdict(outputs)
            if verdict is Verdict.SATISFIED and sliced and name is None:
                continue
            if verdict is Verdict.UNJUDGED:
                findings += [] if undecided else [SteppedFinding(at, None, verdict)]
                undecided = True
            elif verdict is not None:
                findings.append(SteppedFinding(at, name, verdict))
    ends: dict[str | None, _SliceRun] = {**slices} if sliced else {None: valueless}
    closed = list(_closings(machine, ends))
    unsettled = sorted(finding.at for finding in closed if finding.verdict is Verdict.UNJUDGED)
    if unsettled and not undecided:
        findings.append(SteppedFinding(unsettled[0], None, Verdict.UNJUDGED))
    closing = tuple(finding for finding in closed if finding.verdict is not Verdict.UNJUDGED)
    is_judged = not (undecided or unsettled)
    return SlowJudgement(tuple(findings), closing, applies, may_apply, is_judged)


def _step(machine: Machine, run: _SliceRun, readings: Sequence[frozenset[str] | None]) -> list[int]:
    """Step every state on every reading, and return the outputs."""
    steps = [
        (state, PENDING) if true is None else machine.step(state, machine.word(true))
        for state in run.states
        for true in readings
    ]
    run.states = frozenset(state for state, _ in steps)
    return [output for _, output in steps]


def _verdict(outputs: Sequence[int]) -> Verdict | None:
    """Return the verdict that has a record at an event; it is `unjudged` where only some runs violate."""
    verdicts = {VERDICTS[output & VERDICT_MASK] for output in outputs}
    if len(verdicts) > 1:
        return Verdict.UNJUDGED if Verdict.VIOLATED in verdicts else None
    is_new = any(output & VERDICT_MASK in (VIOLATED, SATISFIED) for output in outputs)
    return verdicts.pop() if is_new else None


def _closings(machine: Machine, runs: Mapping[str | None, _SliceRun]) -> Iterator[SteppedFinding]:
    """Yield the closing verdict of each run; it is `unjudged` where only some states are unmet."""
    for name, run in runs.items():
        verdicts = {machine.closing[state] for state in run.states}
        verdict = verdicts.pop() if len(verdicts) == 1 else None
        if verdicts and (verdict is None) and Verdict.UNMET in verdicts:
            verdict = Verdict.UNJUDGED
        if verdict is not None:
            yield SteppedFinding(run.last, name, verdict)
