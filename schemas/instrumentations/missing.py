"""What was missing at an event that a rule could not judge, and the setting that has it captured."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..event import Content
from .advice import advice_for

LIMITS = "raise the SDK's limits, OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
"""What to do where content was cut off."""
_SAID = {
    Content.ABSENT: "not captured",
    Content.TRUNCATED: "cut off",
    Content.REDACTED: "redacted",
}
_ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*=")


@dataclass(frozen=True, slots=True)
class Missing:
    """What an event lacks: how (`content`), which `field` in words, and by which instrumentation scope.

    `scope` is None where the event does not name one, as those of chat logs.
    """

    content: Content
    field: str
    scope: str | None = None

    @property
    def reason(self) -> str:
        """Return what is missing, in words: `message text not captured`."""
        return f"{self.field} {_SAID.get(self.content, 'not known')}"

    @property
    def setting(self) -> str | None:
        """Return what to set so that it is captured, None where that is not known."""
        if self.content is Content.TRUNCATED:
            return LIMITS
        advice = advice_for(self.scope) if self.scope and self.content is Content.ABSENT else None
        if advice is None:
            return None
        return f"set {advice.content}" if _ASSIGNMENT.match(advice.content) else advice.content


def with_setting(reason: str, scope: str | None, setting: str | None) -> str:
    """Return the reason with what to do about it: `message text not captured (SCOPE: set NAME=true)`."""
    told = ": ".join(part for part in (scope, setting) if part)
    return f"{reason} ({told})" if told else reason
