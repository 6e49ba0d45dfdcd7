"""What a tool was given and gave back, out of what instrumentation of functions wraps around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...event import Content
from ...span import Value
from ...span_content import Role, ToolResult
from .message_parts import name_of
from .messages import is_message, message_of
from .reading import Half
from .values import is_object, parsed, parsed_if_nested, result

_CALL_FIELDS = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
"""The fields of a Python function's call; the last is a parameter of smolagents' own."""
_ERROR = re.compile(r"\s*error\b", re.IGNORECASE)
_OUTPUT_FIELDS = frozenset({"tool_name", "raw_output", "is_error"})
"""Fields that LlamaIndex's `ToolOutput` always has."""


def unquoted(value: Value) -> Value:
    """Return what JSON text holds, a string too; any other value as it is."""
    if isinstance(value, str) and value[:1] == '"':
        try:
            return parsed(value)
        except ValueError:
            return value
    return parsed_if_nested(value)


def unwrapped_arguments(value: Value) -> Value:
    """Return a tool's arguments without the call of the Python function around them (OpenLLMetry, LangChain)."""
    told = parsed_if_nested(value)
    if not is_object(told):
        return value
    if told.get("args") == [] and is_object(kwargs := told.get("kwargs")):
        return kwargs
    if "input_str" not in told:
        return value
    return inputs if is_object(inputs := told.get("inputs")) else told["input_str"]


def called_arguments(value: Value, names: Sequence[str] = ()) -> Value:
    """Return a tool's arguments out of the call of the function that ran it.

    `names` are those of its parameters, in their order. Arguments that are given by place, to a function
    whose parameters nobody names, stay as they are. A function may call its keywords `args`.
    """
    told = parsed_if_nested(value)
    if not is_object(told) or not told or not _CALL_FIELDS.issuperset(told):
        return value
    args, kwargs = told.get("args", []), told.get("kwargs", {})
    if is_object(args) and len(told) == 1:
        return args
    if not isinstance(args, list) or not is_object(kwargs) or len(args) > len(names):
        return value
    return {**dict(zip(names, args, strict=False)), **kwargs}


def tool_result(value: Value, tool: str | None) -> ToolResult:
    """Return what a tool returned; LangChain's tools return a message that also says which call it answers.

    JSON stays as it was written, but for a string, which is told without its quotes.
    """
    if value is None:
        return ToolResult(None, tool, None, content=Content.ABSENT)
    told = unquoted(value)
    if is_object(told) and "output" in told and "kwargs" in told:
        value = told = told["output"]
    if is_object(told) and _OUTPUT_FIELDS.issubset(told):
        return _tool_output(told, tool)
    if is_object(told) and is_object(inner := told.get("response")) and told.get("name") == tool and tool:
        # Google's `FunctionResponse`, which also says which call it answers.
        text, content = result(inner)
        return ToolResult(name_of(told.get("id")), tool, text, content=content)
    if is_object(told) and ("tool_call_id" in told or "kwargs" in told or told.get("type") == "tool"):
        message = message_of(told, Role.TOOL) if is_message({"role": "tool", **told}) else None
        if message is not None and message.results:
            return replace(message.results[0], tool=tool)
    text, content = result(told if isinstance(told, str) else value)
    return ToolResult(None, tool, text, content=content)


def marked_if_failed(result: ToolResult) -> ToolResult:
    """Return a result with an error where its only field, `result`, holds the text of one (Google's ADK).

    The object stays as it is, and rules that look at how a result begins do not see the text in it.
    """
    told = parsed_if_nested(result.result)
    text = told.get("result") if is_object(told) and len(told) == 1 else None
    is_error = result.error is None and isinstance(text, str) and _ERROR.match(text)
    return replace(result, error="tool_error") if is_error else result


def marked_in(half: Half) -> Half:
    """Return what a model was told with an error on each result that holds the text of one."""
    if not any(message.results for message in half.messages or ()):
        return half
    messages = (
        replace(message, results=tuple(map(marked_if_failed, message.results)))
        for message in half.messages or ()
    )
    return replace(half, messages=tuple(messages))


def text_parts(value: Value) -> Value:
    """Return the parts that JSON text holds where all are text or JSON, else the value as it is."""
    told = parsed_if_nested(value)
    if not isinstance(told, list) or not told:
        return value
    if all(is_object(part) and [*part] == ["text"] for part in told):
        return told
    only = told[0]
    return only["json"] if len(told) == 1 and is_object(only) and [*only] == ["json"] else value


def _tool_output(told: dict[str, Value], tool: str | None) -> ToolResult:
    """Read LlamaIndex's `ToolOutput`: the model gets the text of its blocks, before 0.12 of its content."""
    blocks, body = told.get("blocks"), told.get("content", told["raw_output"])
    texts = (
        [one.get("text") if is_object(one) else None for one in blocks] if isinstance(blocks, list) else []
    )
    if texts and all(isinstance(text, str) for text in texts):
        body = "\n".join(text for text in texts if isinstance(text, str))
    text, content = result(body)
    return ToolResult(None, tool, text, "tool_error" if told["is_error"] is True else None, content)
