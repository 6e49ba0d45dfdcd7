"""A session of any source explained: its events, and the runs of the rules over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...archive.error import SourceError
from ...rules.engine.judge import CompiledRules, label_columns
from ...rules.explanation.breach import explain_breach
from ...rules.explanation.timeline import RunExplanation, Sentences, explanations
from ...rules.model.problem import did_you_mean
from ...rules.model.rule import Rule, RuleSet
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.verdict import Verdict
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources
from .sessions import JudgedSession, judged_session


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
    labels = judged.labelled.select("seq", *label_columns(session.compiled))[judged.order.rows]
    bounds: list[int] = judged.sessions.bounds.tolist()
    for slot, is_open in enumerate(judged.sessions.open.tolist()):
        begin, end = bounds[slot], bounds[slot + 1]
        if begin == end:
            continue
        runs = explanations(session.compiled, labels[begin:end], is_closed=not is_open)
        occurrence = str(events[begin]["occurrence"])
        yield ExplainedSession(
            session_id=session_id,
            occurrence=occurrence,
            closed=not is_open,
            events=tuple(events[begin:end]),
            runs=tuple(run for run in runs if every_rule or is_relevant(run)),
            sentences=sentences_of(session.compiled, _of_occurrence(session, occurrence)),
        )


def is_relevant(run: RunExplanation) -> bool:
    """Return whether the rule of a run applies to the session, is broken or is unjudged there."""
    return (
        run.applies
        or run.unjudged is not None
        or run.close is Verdict.UNMET
        or any(step.is_reported for step in run.steps)
    )


def sentences_of(compiled: CompiledRules, records: Sequence[VerdictRecord]) -> Sentences:
    """Return a sentence on each verdict of an occurrence."""
    rules = {(rule.pack, rule.id): rule for rule in compiled.rules}
    return {
        (record.pack, record.rule, record.slice, record.seq, record.verdict): explain_breach(
            rules[record.pack, record.rule], record
        )
        for record in records
    }


def _of_occurrence(session: JudgedSession, occurrence: str) -> list[VerdictRecord]:
    return [record for record in session.records if record.occurrence == occurrence]


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
