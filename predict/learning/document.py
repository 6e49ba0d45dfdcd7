"""The document of a learned chain, `chain.json`: its options, its rules and the evidence, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..folder.tables import RuleToWrite
from ..validation.calibration import SCORES
from ..validation.fit import ChainFit
from ..validation.thresholds import RiskThreshold
from .learn import ChainLearned
from .learn_rule import RuleLearned, fit_warnings
from .sample_sizes import SampleSizes

DECIMALS = 9
"""Decimals of the numbers of a document: it must be the same on every machine."""


def chain_document(chain: ChainLearned) -> dict[str, Any]:
    """Return what a chain was learned from, and the options that decide its risks and their evidence.

    It has the texts of the packs, from which the rules and their steps can be made again.
    """
    learned, options, split = chain.source, chain.learning.options, chain.learning.split
    estimate = options.risks.estimate
    smoothing = "nested" if estimate.alpha is None else f"laplace:{estimate.alpha:g}"
    return {
        "horizons": list(options.risks.horizons),
        "history": "machine" if estimate.has_history else "none",
        "smoothing": smoothing,
        "impossible": [list(pair) for pair in sorted(estimate.impossible)],
        "confidence": options.confidence,
        "eps": options.eps,
        "delta": options.delta,
        "hold_out": split.hold_out,
        "seed": split.seed,
        "sessions": learned.sessions,
        "learned": learned.learned,
        "events": learned.events,
        "inputs": {"files": learned.files, "sha256": learned.digest},
        "by": chain.learning.by,
        "warnings": [text for rule in chain.rules for text in fit_warnings(rule)],
        "packs": dict(chain.rule_set.sources),
    }


def rules_to_write(chain: ChainLearned) -> list[RuleToWrite]:
    """Return the learned rules for the chain's folder."""
    watched = chain.watched
    is_held_out = chain.learning.split.hold_out > 0
    return [
        RuleToWrite(
            learned.risks,
            learned.intervals,
            watched.fingerprint(number),
            rule_document(learned, rule.severity.value, is_held_out=is_held_out),
        )
        for number, (learned, rule) in enumerate(zip(chain.rules, watched.rules, strict=True))
    ]


def rule_document(learned: RuleLearned, severity: str, *, is_held_out: bool) -> dict[str, Any]:
    """Return the evidence for the risks of a rule.

    There is no threshold and no score unless sessions were held out: those that a chain was learned from
    prove nothing about its risks.
    """
    horizons = learned.risks.table.horizons
    thresholds, scores = (learned.thresholds, learned.scores) if is_held_out else ((), ())
    return {
        "severity": severity,
        "sessions": learned.sessions,
        "violating": learned.violating,
        "fit": [_fit(*each) for each in zip(horizons, learned.fits, strict=True)],
        "thresholds": [_threshold(*each) for each in zip(horizons, thresholds, strict=is_held_out)],
        "scores": [_score(*each) for each in zip(horizons, scores, strict=is_held_out)],
        "sample_sizes": _sizes(learned.sizes),
    }


def _fit(within: int | None, fit: ChainFit) -> dict[str, Any]:
    return {
        "within": within,
        "contexts": fit.contexts,
        "inside": fit.contexts - len(fit.outside),
        "visits": fit.visits,
        "outside_visits": fit.outside_visits,
    }


def _score(within: int | None, scores: Mapping[str, float]) -> dict[str, Any]:
    counts = {name: int(scores[name]) for name in ("visits", "violating")}
    return {"within": within, **counts, **{name: number(scores[name]) for name in SCORES}}


def _threshold(within: int | None, found: RiskThreshold) -> dict[str, Any]:
    lead = found.lead
    return {
        "within": within,
        "threshold": number(found.threshold),
        "miss": found.miss,
        "confidence": found.confidence,
        "violating": found.violating,
        "violating_min": found.violating_min,
        "missed": found.missed,
        "others": found.others,
        "warned_others": found.warned_others,
        "left_out": found.left_out,
        "lead": None if lead is None else [number(each) for each in (lead.lower, lead.median, lead.upper)],
    }


def _sizes(sizes: SampleSizes) -> dict[str, Any]:
    """Return the report of Pro2Guard's rule: by context, and whether its guarantee may be claimed."""
    return {
        "contexts": len(sizes.left),
        "sufficient_locally": sizes.local_sufficient,
        "factor": number(sizes.factor),
        "is_claimed": sizes.is_sufficient,
        "left": sizes.left.tolist(),
        "required": [number(each) for each in sizes.required.tolist()],
    }


def number(value: float | None) -> float | None:
    """Return a number with so many decimals, None for none."""
    return None if value is None or not math.isfinite(value) else round(value, DECIMALS)
