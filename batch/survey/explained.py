"""A session of any source explained: its events, and the runs of the rules over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...archive.error import SourceError
from ...rules.explanation.timeline import (
    RunExplanation,
    Sentences,
    judged_explanations,
    sentences_of,
)
from ...rules.model.problem import did_you_mean
from ...rules.model.rule import Rule, RuleSet
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources
from .sessions import judged_session


@dataclass(frozen=True, slots=True)
class ExplainedSession:
    """One occurrence of a session: its events, and the runs of the rules, each with its sentences.

    `events` are those of `SessionView`, without verdicts.
    """

    session_id: str
    occurrence: str
    closed: bool
    events: tuple[Mapping[str, Any], ...]
    runs: tuple[RunExplanation, ...]
    sentences: Sentences


def explained_session(
    source: Sources,
    session_id: str,
    scratch: Path,
    population: Population,
    options: AuditOptions,
    rule_set: RuleSet,
    *,
    every_rule: bool = False,
) -> Iterator[ExplainedSession]:
    """Yield the occurrences of a session, each with the rules that apply or are unjudged, or with every rule.

    `scratch` is an empty folder of the caller. Raises SourceError if there is nothing to read, or no such
    session (TRL410), and RuleError (TRL303) where a formula is too large for the session.
    """
    session = judged_session(source, session_id, scratch, population, options, rule_set)
    judged, events = session.judged, session.events()
    bounds: list[int] = judged.sessions.bounds.tolist()
    for slot, is_open in enumerate(judged.sessions.open.tolist()):
        shown = events[bounds[slot] : bounds[slot + 1]]
        if not shown:
            continue
        occurrence = str(shown[0]["occurrence"])
        runs = tuple(judged_explanations(session.compiled, judged, slot, every=every_rule))
        records = [record for record in session.records if record.occurrence == occurrence]
        yield ExplainedSession(
            session_id=session_id,
            occurrence=occurrence,
            closed=not is_open,
            events=tuple(shown),
            runs=runs,
            sentences=sentences_of(session.compiled, records, runs),
        )


def only_rule(rule_set: RuleSet, name: str) -> RuleSet:
    """Return the rule set with the rules of that id or `pack/id`. Raises SourceError (TRL422) if none is."""
    rules = tuple(rule for rule in rule_set.rules if name in _names(rule))
    if not rules:
        known = [each for rule in rule_set.rules for each in _names(rule)]
        raise SourceError("TRL422", "--rule", f"no rule is named {name}", did_you_mean(name, known))
    return replace(rule_set, rules=rules)


def _names(rule: Rule) -> tuple[str, str]:
    return rule.id, f"{rule.pack}/{rule.id}"


def check_step(sessions: Sequence[ExplainedSession], at: int) -> None:
    """Raise SourceError (TRL423) if no run of the sessions has a step `at`."""
    longest = max((len(run.steps) for session in sessions for run in session.runs), default=0)
    if not 1 <= at <= longest:
        what = f"there is no step {at}" + (f": the steps are 1 to {longest:,}" if longest else "")
        hint = "run without --at to list the steps" if longest else "no rule applies; choose one with --rule"
        raise SourceError("TRL423", "--at", what, hint)
