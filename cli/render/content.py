"""The content of an event on one line, safe to print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..terminal import clean


def event_text(event: Mapping[str, Any], width: int) -> str:
    """Return the text, the arguments of a call or the result, and the error, cut to `width` characters."""
    parts = (
        event["text"],
        event["args"] if event["kind"] == "tool_call" else event["result"],
        event["error"],
    )
    # Cleaning never lengthens text, so the first characters are enough, however long it is.
    return clean(" ".join(" ".join(part[: 4 * width] for part in parts if part).split()), width)
