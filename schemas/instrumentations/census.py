"""Counts of spans by instrumentation scope, all and those that are read, that is, yield events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ..chat.message import string_of
from .advice import advice_for

SCOPES_MAX = 1_000
"""Scopes with counts of their own; the spans of further ones count under `OTHER_SCOPES`."""
OTHER_SCOPES = "(other scopes)"
NO_SCOPE = ""
"""The scope of spans without a scope name, or with one that is no text."""
SCOPES_SHOWN = 5
_COLLECTIONS = frozenset(["openinference", "opentelemetry", "@arizeai", "@traceloop"])
"""Prefixes of the scopes of projects that instrument several frameworks."""
SCOPE_CHARS_MAX = 200
"""Characters of a scope's name or version; a longer one is cut."""


@dataclass(slots=True)
class SpanCensus:
    """Spans by instrumentation scope.

    `spans` counts all spans, `read` those with messages, calls or results (`SpanReading.has_claims`), also if
    the content was not captured. HTTP and database spans are unread, as they should be.
    """

    spans: Counter[str] = field(default_factory=Counter[str])
    read: Counter[str] = field(default_factory=Counter[str])

    def count(self, scope: str, spans: int, read: int) -> None:
        """Add spans of a scope, and how many of them are read."""
        name = scope_name(scope)
        if name not in self.spans and len(self.spans) >= SCOPES_MAX:
            name = OTHER_SCOPES
        self.spans[name] += spans
        self.read[name] += read

    def add(self, census: SpanCensus) -> None:
        """Add the spans of another census."""
        for scope, spans in census.spans.items():
            self.count(scope, spans, census.read[scope])

    @property
    def is_unread(self) -> bool:
        """Return whether spans came and all are unread."""
        return self.spans.total() > 0 and not self.read.total()

    @property
    def unread_frameworks(self) -> dict[str, int]:
        """Return the spans of each scope of a known agent framework from which nothing is read.

        A framework is left out where another scope of it is read, or its spans never hold messages.
        """
        read = {_framework(scope) for scope, count in self.read.items() if count}
        return {
            scope: spans
            for scope, spans in self.spans.items()
            if _framework(scope) not in read and _may_have_messages(scope)
        }

    def as_json(self) -> dict[str, dict[str, int]]:
        """Return the counts by scope, sorted by name."""
        return {scope: {"spans": self.spans[scope], "read": self.read[scope]} for scope in sorted(self.spans)}


def scope_name(text: str) -> str:
    """Return the name or the version of a scope, cut to `SCOPE_CHARS_MAX`; empty where it is no text."""
    return _cached_name(text) if len(text) < SCOPE_CHARS_MAX else _name(text)


def _name(text: str) -> str:
    return string_of(text[:SCOPE_CHARS_MAX]) or NO_SCOPE


_cached_name = lru_cache(maxsize=SCOPES_MAX)(_name)


def census_of(counts: Mapping[str, Mapping[str, int]]) -> SpanCensus:
    """Return the census that `as_json` wrote. Raises KeyError, TypeError or ValueError where it is none."""
    census = SpanCensus()
    for scope, count in counts.items():
        census.count(scope, int(count["spans"]), int(count["read"]))
    return census


def sum_of(parts: Iterable[SpanCensus]) -> SpanCensus:
    """Return the sum of several censuses."""
    whole = SpanCensus()
    for part in parts:
        whole.add(part)
    return whole


def _framework(scope: str) -> str:
    """Return the common prefix of a framework's scopes: `semantic_kernel` of `semantic_kernel.functions`."""
    name = scope.partition(".")[0].partition("/")[0]
    return scope if name in _COLLECTIONS else name


def _may_have_messages(scope: str) -> bool:
    """Return whether a scope is known, and its spans hold messages with the right settings."""
    advice = advice_for(scope)
    return advice is not None and not advice.content.startswith("none")


def unread_text(spans: Mapping[str, int]) -> str:
    """Return a notice of unread spans: their number, and that of each scope, the largest first."""
    ranked = sorted(spans, key=lambda scope: (-spans[scope], scope))
    named = [f"{scope or '(no name)'} {spans[scope]:,}" for scope in ranked[:SCOPES_SHOWN]]
    if len(ranked) > SCOPES_SHOWN:
        named.append(f"and {len(ranked) - SCOPES_SHOWN:,} more")
    count = sum(spans.values())
    subject = f"{count:,} {'span' if count == 1 else 'spans'}"
    return f"{subject}, none contains a conversation; scopes: {', '.join(named)}"
