"""How many spans came of each instrumentation scope, and how many of them are read: they yield events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..chat.message import string_of
from .advice import advice_for

SCOPES_MAX = 1_000
"""Scopes with counts of their own; the spans of further ones count under `OTHER_SCOPES`."""
OTHER_SCOPES = "(other scopes)"
NO_SCOPE = ""
"""The name under which spans count whose scope has no name, or none that is text."""
SCOPES_SHOWN = 5
_COLLECTIONS = frozenset(["openinference", "opentelemetry", "@arizeai", "@traceloop"])
"""What scopes begin with that belong to instrumentations of several frameworks."""
SCOPE_CHARS_MAX = 200
"""Characters of a scope's name; a longer one is cut."""


@dataclass(slots=True)
class SpanCensus:
    """Spans by instrumentation scope.

    `spans` counts all that came, `read` those that tell of messages, calls or results (`Heard.tells`), also
    where their content was not captured. HTTP and database spans are unread, as they should be.
    """

    spans: Counter[str] = field(default_factory=Counter[str])
    read: Counter[str] = field(default_factory=Counter[str])

    def count(self, scope: str, spans: int, read: int) -> None:
        """Add spans of a scope, of which so many are read."""
        name = (string_of(scope[:SCOPE_CHARS_MAX]) or NO_SCOPE) if scope else NO_SCOPE
        if name not in self.spans and len(self.spans) >= SCOPES_MAX:
            name = OTHER_SCOPES
        self.spans[name] += spans
        self.read[name] += read

    def add(self, other: SpanCensus) -> None:
        """Add the spans of another census."""
        for scope, spans in other.spans.items():
            self.count(scope, spans, other.read[scope])

    @property
    def is_unread(self) -> bool:
        """Return whether spans came and none of them is read."""
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
            if _framework(scope) not in read and _may_speak(scope)
        }

    def as_json(self) -> dict[str, dict[str, int]]:
        """Return the counts by scope, sorted by name."""
        return {scope: {"spans": self.spans[scope], "read": self.read[scope]} for scope in sorted(self.spans)}


def census_of(counts: Mapping[str, Mapping[str, int]]) -> SpanCensus:
    """Return the census that `as_json` wrote. Raises KeyError, TypeError or ValueError where it is none."""
    census = SpanCensus()
    for scope, told in counts.items():
        census.count(scope, int(told["spans"]), int(told["read"]))
    return census


def sum_of(parts: Iterable[SpanCensus]) -> SpanCensus:
    """Return all parts added up."""
    whole = SpanCensus()
    for part in parts:
        whole.add(part)
    return whole


def _framework(scope: str) -> str:
    """Return what a framework's scopes have in common: `semantic_kernel` of `semantic_kernel.functions`."""
    name = scope.partition(".")[0].partition("/")[0]
    return scope if name in _COLLECTIONS else name


def _may_speak(scope: str) -> bool:
    """Return whether a scope is known, and its spans hold messages where it is set to."""
    advice = advice_for(scope)
    return advice is not None and not advice.content.startswith("none")


def unread_text(spans: Mapping[str, int]) -> str:
    """Return what is to be said of unread spans: their number, and that of each scope, the largest first."""
    ranked = sorted(spans, key=lambda scope: (-spans[scope], scope))
    named = [f"{scope or '(no name)'} {spans[scope]:,}" for scope in ranked[:SCOPES_SHOWN]]
    if len(ranked) > SCOPES_SHOWN:
        named.append(f"and {len(ranked) - SCOPES_SHOWN:,} more")
    count = sum(spans.values())
    subject = f"{count:,} {'span' if count == 1 else 'spans'}"
    return f"{subject}, none tells of a conversation; scopes: {', '.join(named)}"
