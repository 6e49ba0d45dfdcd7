"""The notice that spans arrive and nothing is read from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...schemas.display import visible
from ...schemas.instrumentations.census import SpanCensus, unread_text

SPANS_MIN = 1_000
"""Spans after which the notice comes though more arrive; before that, spans of their traces may follow."""


@dataclass(slots=True)
class UnreadNotice:
    """A live process's notice of unread spans: once for all, and once for each agent framework's scope."""

    report: Callable[[str], None]
    census: SpanCensus = field(default_factory=SpanCensus)
    _is_reported: bool = False
    _scopes: set[str] = field(default_factory=set[str])

    def add(self, spans: SpanCensus) -> None:
        """Count spans that arrived."""
        before = self.census.spans.total() // SPANS_MIN
        self.census.add(spans)
        if self.census.spans.total() // SPANS_MIN > before:
            self.idle()

    def idle(self) -> None:
        """Report the unread spans, once: no span that could be read is expected now."""
        silent = self.census.unread_frameworks
        new = {scope: count for scope, count in silent.items() if scope not in self._scopes}
        if self.census.is_unread and not self._is_reported:
            self._is_reported, new = True, dict(self.census.spans)
        if new:
            self._scopes.update(silent)
            self.report(f"{visible(unread_text(new))}; run `tracline doctor`, or see docs/spans.md")
