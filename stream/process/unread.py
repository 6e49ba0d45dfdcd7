"""Saying once that spans come and nothing is read from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...schemas.display import visible
from ...schemas.instrumentations.census import SpanCensus, unread_text

SPANS_MIN = 1_000
"""Spans after which it is said though more keep coming; before that, others of their traces may come."""


@dataclass(slots=True)
class UnreadNotice:
    """What a live process logs of unread spans: once of all, and once of each agent framework's scope."""

    report: Callable[[str], None]
    census: SpanCensus = field(default_factory=SpanCensus)
    _is_said: bool = False
    _scopes: set[str] = field(default_factory=set[str])

    def add(self, spans: SpanCensus) -> None:
        """Count spans that came."""
        before = self.census.spans.total() // SPANS_MIN
        self.census.add(spans)
        if self.census.spans.total() // SPANS_MIN > before:
            self.idle()

    def idle(self) -> None:
        """Say what is not read, if that was not said yet: no span is under way that could be."""
        silent = self.census.unread_frameworks
        new = {scope: count for scope, count in silent.items() if scope not in self._scopes}
        if self.census.is_unread and not self._is_said:
            self._is_said, new = True, dict(self.census.spans)
        if new:
            self._scopes.update(silent)
            self.report(f"{visible(unread_text(new))}; run `tracline doctor`, or see docs/spans.md")
