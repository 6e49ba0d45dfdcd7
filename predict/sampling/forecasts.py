"""Forecasts of sampled and asked risks: their files, and their scores against what the sessions did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import orjson

from ...rules.model.arrays import F64, I64
from ..chain.walks import CLOSED, Walks
from ..counting.split import Split
from ..error import PredictError
from ..validation.calibration import Calibration, calibration
from ..validation.isotonic import cross_calibrated
from ..validation.outcomes import Outcomes
from ..validation.place_loops import NEVER
from ..validation.rule_scores import SEED


@dataclass(frozen=True, slots=True)
class Forecast:
    """A risk of a rule within some events after the event `at` of an occurrence; `how` names its source."""

    session_id: str
    occurrence: str
    at: int
    within: int
    how: str
    pack: str
    rule: str
    risk: float


@dataclass(frozen=True, slots=True)
class ScoredForecast:
    """A forecast with its outcome, and the risk of a chain there, NaN where it has none."""

    forecast: Forecast
    violated: bool
    chain: float


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """The scores of the forecasts of one rule: as given, calibrated by other sessions, and the chain's there.

    `left_out` counts those whose outcome is not known.
    """

    pack: str
    rule: str
    how: str
    within: int
    left_out: int
    given: Calibration
    calibrated: Calibration
    chain: Calibration


def read_forecasts(text: bytes, where: str) -> Iterator[Forecast]:
    """Yield the forecasts of lines that `tracline predict sample --format json` printed; nulls are none.

    Raises PredictError (TRL822) with the line of the first that is none.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield from _of_document(orjson.loads(line))
        except (orjson.JSONDecodeError, TypeError, ValueError, KeyError):
            hint = "use lines that `tracline predict sample --format json` printed"
            raise PredictError("TRL822", f"{where}:{number}", "not a line of forecasts", hint) from None


def _of_document(document: Mapping[str, Any]) -> Iterator[Forecast]:
    """Yield the forecasts of one line. Raises TypeError, ValueError or KeyError where it is none."""
    about = document["session"], document["occurrence"], document["at"], document["within"], document["how"]
    types: tuple[type, ...] = (str, str, int, int, str)
    if not all(type(value) is kind for value, kind in zip(about, types, strict=True)):
        raise TypeError
    if document["at"] < 0 or document["within"] < 1:
        raise ValueError
    for each in cast("list[Mapping[str, Any]]", document["risks"]):
        pack, rule, risk = each["pack"], each["rule"], each["risk"]
        if type(pack) is not str or type(rule) is not str:
            raise TypeError
        if risk is None:
            continue
        if type(risk) not in (int, float) or not 0 <= risk <= 1:
            raise ValueError
        yield Forecast(*about, pack, rule, float(risk))


def forecast_scores(
    scored: Iterable[ScoredForecast], left_out: Mapping[tuple[str, str, str, int], int], confidence: float
) -> list[ForecastScores]:
    """Return the scores by rule, source and horizon; `left_out` has counts by the same names."""
    groups: dict[tuple[str, str, str, int], list[ScoredForecast]] = {}
    for each in scored:
        made = each.forecast
        groups.setdefault((made.pack, made.rule, made.how, made.within), []).append(each)
    found: list[ForecastScores] = []
    for name in sorted(groups):
        of_rule = sorted(groups[name], key=lambda each: (each.forecast.session_id, each.forecast.at))
        sessions = [each.forecast.session_id for each in of_rule]
        numbers = np.unique(sessions, return_inverse=True)[1].astype(np.int64)
        violated = np.array([each.violated for each in of_rule])
        given = np.array([each.forecast.risk for each in of_rule])
        split = Split(hold_out=0.0)
        folds = np.array([split.of(session) for session in sessions], dtype=np.int64)
        by_source = (
            given,
            cross_calibrated(given, violated, folds),
            np.array([each.chain for each in of_rule]),
        )
        scores = (_calibration(numbers, risks, violated, confidence) for risks in by_source)
        found.append(ForecastScores(*name, left_out.get(name, 0), *scores))
    return found


def _calibration(sessions: I64, risks: F64, violated: np.ndarray[Any, Any], confidence: float) -> Calibration:
    """Return the scores of forecasts with known outcomes, each as a sequence of its own."""
    size = len(risks)
    walks = Walks(
        contexts=np.arange(size, dtype=np.int32),
        violated=np.zeros(size, dtype=np.bool_),
        bounds=np.arange(size + 1, dtype=np.int64),
        sessions=sessions.astype(np.int32),
        endings=np.full(size, CLOSED, dtype=np.uint8),
    )
    known = np.full(size, NEVER, dtype=np.int64)
    outcomes = Outcomes(np.where(violated, 1, NEVER).astype(np.int64), known)
    return calibration(walks, outcomes, risks, None, np.random.default_rng(SEED), confidence=confidence)
