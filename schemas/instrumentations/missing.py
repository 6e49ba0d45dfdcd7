"""The content missing at an event that a rule could not judge, and the setting that captures it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..event import Content
from .advice import advice_for

LIMITS = "raise the SDK's limits, OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
"""The setting for content that was cut off."""
_STATES = {Content.ABSENT: "not captured", Content.TRUNCATED: "cut off", Content.REDACTED: "redacted"}
_ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*=")


@dataclass(frozen=True, slots=True)
class Missing:
    """A missing field of an event: its state (`content`), its name in words, and the instrumentation scope.

    `scope` is None where the event does not name one, as those of chat logs.
    """

    content: Content
    field: str
    scope: str | None = None

    @property
    def reason(self) -> str:
        """Return the missing field in words: `message text not captured`."""
        return f"{self.field} {_STATES.get(self.content, 'not known')}"

    @property
    def setting(self) -> str | None:
        """Return the setting that captures it, None where that is not known."""
        if self.content is Content.TRUNCATED:
            return LIMITS
        advice = advice_for(self.scope) if self.scope and self.content is Content.ABSENT else None
        if advice is None:
            return None
        return f"set {advice.content}" if _ASSIGNMENT.match(advice.content) else advice.content


def with_setting(reason: str, scope: str | None, setting: str | None) -> str:
    """Return the reason with its setting: `message text not captured (SCOPE: set NAME=true)`."""
    hint = ": ".join(part for part in (scope, setting) if part)
    return f"{reason} ({hint})" if hint else reason
