"""The status of each part of a followed rule at the events of a session, as its page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import NamedTuple

from ...rules.engine.judge import CompiledRules
from ...rules.engine.status import event_labels
from ...rules.explanation.deciding import DecidingParts
from ...rules.explanation.rule_status import Status
from ...rules.explanation.timeline import RunExplanation, explanations
from ...rules.model.printer import to_text
from ...rules.model.problem import RuleError
from ...schemas.event import Event

PARTS_SHOWN_MAX = len(ascii_letters)
"""Parts of a rule that the page shows, its first ones."""
SLICES_SHOWN_MAX = 8
"""Slices that the page shows at one event."""


@dataclass(frozen=True, slots=True)
class RulePart:
    """A part of a rule: its letter on the page, its depth in the formula, and its text."""

    letter: str
    depth: int
    text: str


class ShownStatus(NamedTuple):
    """The status of a part, by its letter; `is_breaking` marks a violated part that breaks the rule there."""

    letter: str
    status: Status
    is_breaking: bool


@dataclass(frozen=True, slots=True)
class SliceStatuses:
    """The statuses of the parts from an event on, in one slice; `is_worth` marks a step worth a look."""

    slice: str | None
    statuses: tuple[ShownStatus, ...]
    is_worth: bool


@dataclass(frozen=True, slots=True)
class FollowedRule:
    """The parts of a followed rule, and their statuses by the `seq` of events; `left_out` parts have none."""

    parts: tuple[RulePart, ...]
    left_out: int
    at: dict[int, list[SliceStatuses]]


def followed_rule(
    compiled: CompiledRules, number: int, events: Sequence[Event], *, is_closed: bool
) -> FollowedRule | None:
    """Return the statuses of a rule over an occurrence's first events; None where it is too large."""
    if not events:
        return None
    try:
        runs = list(explanations(compiled, event_labels(compiled, events), is_closed=is_closed, only=number))
    except RuleError:
        return None
    at: dict[int, list[SliceStatuses]] = {}
    for run in runs:
        for seq, statuses in _statuses(run):
            at.setdefault(seq, []).append(statuses)
    every = runs[0].status.parts if runs else ()
    parts = tuple(
        RulePart(letter, part.node.count("."), to_text(part.formula))
        for letter, part in zip(ascii_letters, every, strict=False)
    )
    return FollowedRule(parts, len(every) - len(parts), at)


def _statuses(run: RunExplanation) -> Iterator[tuple[int, SliceStatuses]]:
    """Yield the `seq` of each step of a run, with the statuses from it on."""
    worth, parts = set(run.status.worth()), run.status.parts
    deciding = DecidingParts(run.status)
    for number, step in enumerate(run.steps, start=1):
        breaking = deciding.breaking(number)
        statuses = tuple(
            ShownStatus(letter, status, status is Status.VIOLATED and _has_any(part.node, breaking))
            for letter, part in zip(ascii_letters, parts, strict=False)
            for status in (part.status(number, number),)
        )
        yield step.seq, SliceStatuses(run.slice, statuses, number in worth)


def _has_any(node: str, nodes: Iterable[str]) -> bool:
    """Return whether one of the nodes is this one or below it."""
    return any(each == node or each.startswith(f"{node}.") for each in nodes)
