"""The comparison of two bundles as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...batch.report.figures import interval
from ...schemas.display import visible

if TYPE_CHECKING:
    from ...batch.report.comparison import ChangedBundle, ComparedRule
    from ...schemas.records.verdict_record import VerdictRecord
    from ...schemas.records.violation_rate import ViolationRate


def comparison_lines(found: ChangedBundle) -> Iterator[str]:
    """Yield the lines of a comparison: the population, the rules, new and vanished violations."""
    yield "Population, before and now"
    for name, (before, now) in found.population.items():
        yield f"  {name.replace('_', ' ')}: {before:,} -> {now:,}" + (
            f" ({now - before:+,})" if now - before else ""
        )
    yield "Rules, with 95% intervals"
    for rule in found.rules:
        yield f"  {visible(rule.key)}: {_rate(rule.before)} -> {_rate(rule.now)}{_remarks(rule)}"
    new, vanished = (sum(getattr(rule, name) for rule in found.rules) for name in ("new", "vanished"))
    yield from _listed("New violations", new, found.new)
    yield from _listed("Vanished violations", vanished, found.vanished)


def _rate(rate: ViolationRate | None) -> str:
    if rate is None:
        return "no such rule"
    return f"{rate.described} [{interval(rate)}]" if rate.sessions else "applies to no session"


def _remarks(rule: ComparedRule) -> str:
    remarks = [
        f"{count:,} {word}" for count, word in ((rule.new, "new"), (rule.vanished, "vanished")) if count
    ]
    remarks += ["the rule changed"] if rule.is_changed else []
    return f"; {', '.join(remarks)}" if remarks else ""


def _listed(title: str, count: int, records: Sequence[VerdictRecord]) -> Iterator[str]:
    yield f"{title}: {count:,}"
    for record in records:
        place = f"session {visible(record.session_id)}, event {record.seq}"
        yield f"  {record.severity.value} {visible(record.pack)}/{visible(record.rule)}, {place}: {record.id}"
    if count > len(records):
        yield f"  {count - len(records):,} more"
