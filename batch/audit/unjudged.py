"""Why rules are unjudged: what was missing, in how many sessions, and what to set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...rules.engine import kernel
from ...rules.engine.judge import CompiledRules, Judged
from ...rules.engine.records import is_unknown, reason_of
from ...rules.engine.status import unjudged_findings
from ...rules.labels.missing import MISSING, missing_of
from ...schemas.instrumentations.missing import Missing

REASONS_MAX = 100
"""Reasons that are counted for each rule, those of the most sessions; each scope makes another reason."""
OTHER_REASONS = "other reasons"


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Why a rule, by its number in the rule set, is unjudged; `missing` where something was not captured."""

    rule: int
    reason: str
    missing: Missing | None


def unjudged_in(compiled: CompiledRules, judged: Judged) -> Counter[Unjudged]:
    """Return why rules are unjudged in a bucket, and in how many sessions."""
    found = unjudged_findings(judged)
    rules = pl.Series("rule", compiled.program.order[found.columns], pl.Int64)
    rows = judged.labelled.select(MISSING, is_over=pl.col("seq") > kernel.EVENTS_MAX)
    each = rows[judged.order.rows[found.stamps]].with_columns(rules, pl.Series("kind", found.kinds))
    counts: Counter[Unjudged] = Counter()
    grouped: Any = each.group_by("rule", "kind", "is_over", MISSING).len()
    for rule, kind, is_over, value, count in grouped.iter_rows():
        seq = kernel.EVENTS_MAX + is_over
        missing = missing_of(value) if is_unknown(kind, seq) else None
        reason = reason_of(kind, seq) if missing is None else missing.reason
        counts[Unjudged(rule, str(reason), missing)] += count
    return counts


def reasons_by_rule(reasons: Counter[Unjudged]) -> dict[int, list[dict[str, Any]]]:
    """Return the reasons of each rule as a summary has them, those of the most sessions first."""
    found: dict[int, list[tuple[int, Unjudged]]] = {}
    for why, count in reasons.items():
        found.setdefault(why.rule, []).append((count, why))
    return {rule: list(_ranked(own)) for rule, own in found.items()}


def _ranked(own: list[tuple[int, Unjudged]]) -> Iterable[dict[str, Any]]:
    own.sort(key=lambda one: (-one[0], one[1].reason, (one[1].missing and one[1].missing.scope) or ""))
    for count, why in own[:REASONS_MAX]:
        yield _reason(count, why.reason, why.missing)
    if more := sum(count for count, _ in own[REASONS_MAX:]):
        yield _reason(more, OTHER_REASONS, None)


def _reason(sessions: int, reason: str, missing: Missing | None) -> dict[str, Any]:
    return {
        "sessions": sessions,
        "reason": reason,
        "content": None if missing is None else missing.content.value,
        "scope": None if missing is None else missing.scope,
        "setting": None if missing is None else missing.setting,
    }
