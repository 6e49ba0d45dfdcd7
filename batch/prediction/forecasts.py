"""The outcomes of forecasts in the sessions of an archive, and the risks of a chain at the same places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...predict.chain.over_archive import OverArchive
from ...predict.counting.watched_rules import WatchedRules
from ...predict.error import PredictError
from ...predict.sampling.forecasts import Forecast, ForecastScores, ScoredForecast, forecast_scores
from ...predict.sampling.rule_outcomes import labelled_outcomes
from ...rules.engine.judge import CompiledRules
from ...rules.engine.status import event_labels
from ...rules.model.arrays import F64
from ...schemas.time import rfc3339
from ..prepare.options import AuditOptions
from ..sources.discover import Population, Sources
from ..survey.sessions import WholeOccurrence, occurrences

PackRule = tuple[str, str]
"""The pack and the id of a rule."""


@dataclass(frozen=True, slots=True)
class ChainPlaces:
    """The risks of a chain over an archive, by rule; `ids` are those of the sessions by number.

    `risks[rule]` are by [context, horizon] of `over[rule]`, with its further numbers.
    """

    over: Mapping[PackRule, OverArchive]
    risks: Mapping[PackRule, F64]
    horizons: Sequence[int | None]
    ids: Sequence[str]

    def risk(self, forecast: Forecast, place: int) -> float:
        """Return the risk at a place of the rule's only sequence in a session; NaN where there is none."""
        name = forecast.pack, forecast.rule
        if forecast.within not in self.horizons:
            return float("nan")
        walks = self.over[name].counted.walks
        found = np.flatnonzero(walks.sessions == self.ids.index(forecast.session_id))
        if len(found) != 1:
            return float("nan")
        begin, end = walks.bounds[found[0]], walks.bounds[found[0] + 1]
        if begin + place >= end:
            return float("nan")
        return float(self.risks[name][walks.contexts[begin + place], self.horizons.index(forecast.within)])


def scored_forecasts(
    forecasts: Sequence[Forecast],
    watched: WatchedRules,
    chain: ChainPlaces,
    archive: Sources,
    scratch: Path,
    options: AuditOptions,
    population: Population,
    confidence: float,
) -> list[ForecastScores]:
    """Return the scores of forecasts by rule, source and horizon.

    `scratch` is an empty folder of the caller. Raises PredictError (TRL822) for a rule that the chain lacks
    and for an event that the archive lacks.
    """
    rules = {(rule.pack, rule.id): number for number, rule in enumerate(watched.rules)}
    for each in forecasts:
        if (each.pack, each.rule) not in chain.over:
            raise _lacking(f"the chain has no rule {each.pack}/{each.rule}")
    wanted: dict[tuple[str, str], list[Forecast]] = {}
    for each in forecasts:
        wanted.setdefault((each.session_id, each.occurrence), []).append(each)
    ids = {session for session, _ in wanted}
    scored, left_out = list[ScoredForecast](), Counter[tuple[str, str, str, int]]()
    for occurrence in occurrences(archive, ids, scratch, population, options):
        first = occurrence.events[0]
        of_occurrence = wanted.pop((first.session_id, rfc3339(first.occurrence)), [])
        for each, outcome, place in _outcomes(of_occurrence, watched.compiled, rules, occurrence):
            if outcome is None:
                left_out[each.pack, each.rule, each.how, each.within] += 1
            else:
                scored.append(ScoredForecast(each, outcome, chain.risk(each, place)))
    if wanted:
        session, occurrence = min(wanted)
        raise _lacking(f"the archive has no occurrence {occurrence} of session {session}")
    return forecast_scores(scored, left_out, confidence)


def _outcomes(
    forecasts: Sequence[Forecast],
    compiled: CompiledRules,
    rules: Mapping[PackRule, int],
    occurrence: WholeOccurrence,
) -> Iterator[tuple[Forecast, bool | None, int]]:
    """Yield forecasts of an occurrence with their outcome and the place in the rule's sequence.

    An outcome is None where the occurrence does not show it, and where the rule had no risk.
    """
    groups: dict[tuple[int, int], list[Forecast]] = {}
    for each in forecasts:
        groups.setdefault((each.at, each.within), []).append(each)
    labels = event_labels(compiled, occurrence.events) if groups else None
    for (at, within), made in groups.items():
        before = sum(event.seq <= at for event in occurrence.events)
        assert labels is not None
        found = labelled_outcomes(compiled, labels, before, within)
        for each in made:
            outcome = found[rules[each.pack, each.rule]]
            if outcome is None:
                yield each, None, 0
            else:
                yield each, outcome.within(within, closed=occurrence.is_closed), outcome.place


def _lacking(what: str) -> PredictError:
    hint = "score the forecasts of sessions of this archive, by a chain of their rules"
    return PredictError("TRL822", "forecasts", what, hint)
