"""The kernel's specification: one rule over one session in plain Python, one event after another.

Tests compare `rules/engine/kernel.py` and `rules/engine/stepper.py` with it. It is slow and uses dictionaries
and names; it reads the same machine tables, `Machine.step` and `Machine.closing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...schemas.verdict import Verdict
from ..model.machine import APPLIES, SATISFIED, VERDICT_MASK, VIOLATED, Machine

SLICES_MAX = 1_000
"""Slices that one rule may have in one session. The reference states the limit itself."""


@dataclass(frozen=True, slots=True)
class SteppedEvent:
    """One event as one rule reads it.

    `true` names the propositions that hold. `steps` is the value of the rule's `steps`, None where that is
    unknown. `unknown` is true where another proposition of the rule is unknown. `value` is the event's slice
    value, None where it carries none; `value_unknown` is true where it has one that cannot be read.
    """

    true: frozenset[str]
    steps: bool | None = True
    unknown: bool = False
    value: str | None = None
    value_unknown: bool = False


@dataclass(frozen=True, slots=True)
class SteppedFinding:
    """A verdict, with the event's place in the session (from 0) and the slice."""

    at: int
    slice: str | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SlowJudgement:
    """The judgement of one session by one rule."""

    findings: tuple[SteppedFinding, ...]
    closing: tuple[SteppedFinding, ...]
    applies: bool
    judged: bool


@dataclass(slots=True)
class _SliceRun:
    """The run of the machine over the events of one slice."""

    state: int
    last: int


def judge_slowly(
    machine: Machine, events: Sequence[SteppedEvent], *, sliced: bool = False, slices_max: int = SLICES_MAX
) -> SlowJudgement:
    """Return the judgement of a whole session by the rule of this machine, satisfactions included."""
    valueless = _SliceRun(state=0, last=-1)
    slices: dict[str, _SliceRun] = {}
    findings: list[SteppedFinding] = []
    applies = False
    for at, event in enumerate(events):
        if event.steps is False:
            continue
        value = event.value if sliced else None
        is_full = value is not None and value not in slices and len(slices) == slices_max
        if event.steps is None or event.unknown or (sliced and event.value_unknown) or is_full:
            findings.append(SteppedFinding(at, None, Verdict.UNJUDGED))
            return SlowJudgement(tuple(findings), (), applies, judged=False)
        if value is not None and value not in slices:
            slices[value] = _SliceRun(valueless.state, last=-1)
        runs: dict[str | None, _SliceRun] = (
            {None: valueless, **slices} if value is None else {value: slices[value]}
        )
        for name, run in runs.items():
            run.state, output = machine.step(run.state, machine.word(event.true))
            run.last = at
            applies = applies or bool(output & APPLIES)
            if name is None and slices:
                continue
            if output & VERDICT_MASK == VIOLATED:
                findings.append(SteppedFinding(at, name, Verdict.VIOLATED))
            elif output & VERDICT_MASK == SATISFIED and not (sliced and name is None):
                findings.append(SteppedFinding(at, name, Verdict.SATISFIED))
    ends = slices if sliced else {None: valueless}
    closing = [(name, run.last, machine.closing[run.state]) for name, run in ends.items()]
    closed = tuple(
        SteppedFinding(last, name, verdict) for name, last, verdict in closing if verdict is not None
    )
    return SlowJudgement(tuple(findings), closed, applies, judged=True)
