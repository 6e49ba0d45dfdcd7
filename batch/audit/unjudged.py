"""Reasons why rules are unjudged: the missing content, the number of sessions, and the setting to change."""

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
"""Reasons listed per rule, those of the most sessions; each scope is a separate reason."""
OTHER_REASONS = "other reasons"


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A reason why a rule (by its number) is unjudged; `missing` if content was not captured."""

    rule: int
    reason: str
    missing: Missing | None


def unjudged_in(compiled: CompiledRules, judged: Judged) -> Counter[Unjudged]:
    """Count the sessions of a bucket by the reason why a rule is unjudged."""
    found = unjudged_findings(judged.found)
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
    """Return the reasons of each rule for the summary, those of the most sessions first."""
    found: dict[int, list[tuple[int, Unjudged]]] = {}
    for reason, count in reasons.items():
        found.setdefault(reason.rule, []).append((count, reason))
    return {rule: list(_ranked(reasons)) for rule, reasons in found.items()}


def _ranked(reasons: list[tuple[int, Unjudged]]) -> Iterable[dict[str, Any]]:
    def key(counted: tuple[int, Unjudged]) -> tuple[int, str, str]:
        count, unjudged = counted
        return -count, unjudged.reason, (unjudged.missing and unjudged.missing.scope) or ""

    reasons.sort(key=key)
    for count, unjudged in reasons[:REASONS_MAX]:
        yield _reason(count, unjudged.reason, unjudged.missing)
    if more := sum(count for count, _ in reasons[REASONS_MAX:]):
        yield _reason(more, OTHER_REASONS, None)


def _reason(sessions: int, reason: str, missing: Missing | None) -> dict[str, Any]:
    return {
        "sessions": sessions,
        "reason": reason,
        "content": None if missing is None else missing.content.value,
        "scope": None if missing is None else missing.scope,
        "setting": None if missing is None else missing.setting,
    }
