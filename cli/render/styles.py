"""The styles of verdicts and kinds of events in tables."""

from __future__ import annotations

from ...schemas.verdict import Verdict

VERDICTS = {Verdict.VIOLATED.value: "bold red", Verdict.UNMET.value: "red", Verdict.UNJUDGED.value: "yellow"}
KINDS = {"user": "cyan", "assistant": "green", "tool_call": "magenta", "tool_result": "blue"}
