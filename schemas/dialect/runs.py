"""What a tool was given and gave back, out of what instrumentation of functions wraps around it."""

from __future__ import annotations

from dataclasses import replace

from ..event import Content
from ..span import Value
from ..step import Result, Role
from .carried import is_object, parsed, parsed_if_nested, result
from .messages import is_message, message_of


def unquoted(value: Value) -> Value:
    """What JSON text holds, a string too; any other value as it is."""
    if isinstance(value, str) and value[:1] == '"':
        try:
            return parsed(value)
        except ValueError:
            return value
    return parsed_if_nested(value)


def unwrapped_arguments(value: Value) -> Value:
    """A tool's arguments without the call of the Python function around them (OpenLLMetry, LangChain)."""
    told = parsed_if_nested(value)
    if not is_object(told):
        return value
    if told.get("args") == [] and is_object(kwargs := told.get("kwargs")):
        return kwargs
    if "input_str" not in told:
        return value
    return inputs if is_object(inputs := told.get("inputs")) else told["input_str"]


def tool_result(value: Value, tool: str | None) -> Result:
    """What a tool returned; LangChain's tools return a message that also says which call it answers.

    JSON stays as it was written, but for a string, which is told without its quotes.
    """
    if value is None:
        return Result(None, tool, None, content=Content.ABSENT)
    told = unquoted(value)
    if is_object(told) and "output" in told and "kwargs" in told:
        value = told = told["output"]
    if is_object(told) and ("tool_call_id" in told or "kwargs" in told or told.get("type") == "tool"):
        message = message_of(told, Role.TOOL) if is_message({"role": "tool", **told}) else None
        if message is not None and message.results:
            return replace(message.results[0], tool=tool)
    text, content = result(told if isinstance(told, str) else value)
    return Result(None, tool, text, content=content)
