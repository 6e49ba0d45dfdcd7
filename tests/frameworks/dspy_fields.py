"""The replies of the scripted model to DSPy, whose prompts ask for answers in named fields."""

from __future__ import annotations

import json
import re

from .script import Turn

OBSERVATION = re.compile(r"\[\[ ## observation_(\d+) ## \]\]")
"""The text before the result of a tool in the prompt of `dspy.ReAct`."""
NEXT = "[[ ## next_tool_name ## ]]"
"""The field that asks for the next tool."""
MARK = "[[ ## completed ## ]]"
"""The text that ends every answer in fields."""


def calls_done(text: str) -> int:
    """Count the tool calls of which a prompt holds the result."""
    return len(set(OBSERVATION.findall(text)))


def in_fields(turn: Turn, text: str) -> str:
    """Return the model's reply in a turn: the next call, the end of the calls, or the turn's words."""
    calls = [call for step in turn.steps for call in step.get("calls", ())]
    if NEXT not in text:
        return _fields(reasoning="All is known.", answer=turn.steps[-1]["say"])
    done = calls_done(text)
    if done >= len(calls):
        return _fields(next_thought="All is known.", next_tool_name="finish", next_tool_args="{}")
    args = json.dumps(calls[done]["args"], ensure_ascii=False)
    return _fields(next_thought="Let me see.", next_tool_name=calls[done]["tool"], next_tool_args=args)


def _fields(**fields: str) -> str:
    """Return fields as DSPy's chat adapter reads them."""
    return "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items()) + MARK
