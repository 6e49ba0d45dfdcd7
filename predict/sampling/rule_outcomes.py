"""The outcome of each rule over the events after a place of a session, by stepping the rules on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ...rules.engine.judge import CompiledRules
from ...rules.engine.status import event_labels, label_runs, status_of
from ...rules.engine.stepper import RuleEvent, RuleRun
from ...schemas.event import Event
from ...schemas.verdict import Verdict


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The outcome of one rule within a horizon, counted in the `seen` events that the rule steps on.

    It is violated where one of them has a verdict against the agent, in any slice. `is_stopped` is true where
    the rule became unjudged before the horizon, and `is_unmet` where it would be unmet if the session closed
    after the last event, None where that would be unjudged. The rule had stepped on `place` events before.
    """

    seen: int
    violated: bool = False
    is_stopped: bool = False
    is_unmet: bool | None = False
    place: int = 0

    def within(self, events: int, *, closed: bool) -> bool | None:
        """Return whether a verdict against the agent came within so many events, the close as one of them.

        It is None where the session does not show the whole horizon, also after a verdict: such verdicts
        are seen, and their absence is not, so counting them would overstate the rate.
        """
        if self.seen >= events:
            return self.violated
        if self.is_stopped or not closed or self.is_unmet is None:
            return None
        return self.violated or self.is_unmet


def rule_outcomes(
    compiled: CompiledRules, events: Sequence[Event], before: int, within: int
) -> list[RuleOutcome | None]:
    """Return by rule the outcome over the events after the first `before` ones of an occurrence.

    It is None where the rule has no risk after these: where it is unjudged, or has stopped after a verdict.
    """
    if not events:
        return [RuleOutcome(0)] * len(compiled.rules)
    return labelled_outcomes(compiled, event_labels(compiled, events), before, within)


def labelled_outcomes(
    compiled: CompiledRules, labels: pl.DataFrame, before: int, within: int
) -> list[RuleOutcome | None]:
    """Return the outcomes as `rule_outcomes` does, of events with known labels; there is one at least."""
    found: list[RuleOutcome | None] = [None] * len(compiled.rules)
    for number, run, reads in label_runs(compiled, labels):
        place = sum(bool(run.step(read)) for read in reads[:before])
        if not has_stopped(run):
            found[number] = _outcome(run, reads[before:], within, place)
    return found


def has_stopped(run: RuleRun) -> bool:
    """Return whether no coming event can have a verdict of the rule."""
    runs = [run.valueless, *run.slices.values()]
    return run.is_stopped or run.unjudged is not None or all(each.machine_run.is_final for each in runs)


def _outcome(run: RuleRun, reads: Sequence[RuleEvent], within: int, place: int) -> RuleOutcome:
    seen, violated = 0, False
    for read in reads:
        if seen == within:
            break
        steps = run.step(read)
        violated |= any(each.is_reported and each.step.verdict is Verdict.VIOLATED for each in steps)
        if run.unjudged is not None:
            # The event shows nothing of the horizon.
            return RuleOutcome(seen, violated, is_stopped=True, place=place)
        seen += bool(steps)
    closings = {each.closing for each in status_of(run)}
    is_unmet = True if Verdict.UNMET in closings else None if Verdict.UNJUDGED in closings else False
    return RuleOutcome(seen, violated, is_unmet=is_unmet, place=place)
