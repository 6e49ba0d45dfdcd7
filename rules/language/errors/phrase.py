"""A phrase of policies or other languages that is no formula or condition here, and how to write it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

TIME = r"\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)\b"
"""A duration."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase that a policy owner may try: its pattern, the error's message, and the hint.

    `hint` returns the right spelling for a match, or states that the phrase cannot be expressed.
    """

    pattern: re.Pattern[str]
    message: str
    hint: Callable[[re.Match[str]], str]
    code: str = "TRL107"


def phrase(
    pattern: str, message: str, hint: str | Callable[[re.Match[str]], str], code: str = "TRL107"
) -> Phrase:
    """Return a phrase; a `hint` that is a text is expanded with the groups of the match."""

    def written(match: re.Match[str]) -> str:
        return hint(match) if callable(hint) else match.expand(hint)

    return Phrase(re.compile(pattern), message, written, code)
