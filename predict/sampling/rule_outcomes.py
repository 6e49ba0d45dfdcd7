"""The outcome of each rule over the events after a place of a session, by stepping the rules on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...rules.engine.judge import CompiledRules
from ...rules.engine.status import event_labels, label_runs
from ...rules.engine.stepper import RuleEvent, RuleRun
from ...schemas.event import Event
from ...schemas.verdict import Verdict


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The outcome of one rule within a horizon, counted in the `seen` events that the rule steps on.

    It is violated where one of them has a verdict against the agent, in any slice. `is_stopped` is true where
    the rule became unjudged before the horizon.
    """

    seen: int
    violated: bool
    is_stopped: bool

    def is_known(self, within: int) -> bool:
        """Return whether the events decide the outcome."""
        return self.violated or self.seen >= within


def rule_outcomes(
    compiled: CompiledRules, events: Sequence[Event], before: int, within: int
) -> list[RuleOutcome | None]:
    """Return by rule the outcome over the events after the first `before` ones of an occurrence.

    It is None where the rule has no risk after these: where it is unjudged, or has stopped after a verdict.
    """
    if not events:
        return [RuleOutcome(0, violated=False, is_stopped=False)] * len(compiled.rules)
    found: list[RuleOutcome | None] = [None] * len(compiled.rules)
    for number, run, reads in label_runs(compiled, event_labels(compiled, events)):
        for read in reads[:before]:
            run.step(read)
        if not has_stopped(run):
            found[number] = _outcome(run, reads[before:], within)
    return found


def has_stopped(run: RuleRun) -> bool:
    """Return whether no coming event can have a verdict of the rule."""
    runs = [run.valueless, *run.slices.values()]
    return run.is_stopped or run.unjudged is not None or all(each.machine_run.is_final for each in runs)


def _outcome(run: RuleRun, reads: Sequence[RuleEvent], within: int) -> RuleOutcome:
    seen = 0
    for read in reads:
        steps = run.step(read)
        seen += bool(steps)
        if any(each.is_reported and each.step.verdict is Verdict.VIOLATED for each in steps):
            return RuleOutcome(seen, violated=True, is_stopped=False)
        if run.unjudged is not None:
            return RuleOutcome(seen, violated=False, is_stopped=True)
        if seen == within:
            break
    return RuleOutcome(seen, violated=False, is_stopped=False)
