"""The arguments and results of tools, unwrapped from the function calls that instrumentations record."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from ...event import Content
from ...span import Value
from ...span_content import Role, SpanRole, ToolCall, ToolResult
from .message_parts import name_of
from .messages import is_message, message_of
from .reading import DialectReading, Half
from .values import arguments, is_object, parsed, parsed_if_nested, result

_CALL_FIELDS = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})
"""The fields of a Python function's call; the last is a parameter of smolagents' own."""
_ERROR = re.compile(r"\s*error\b", re.IGNORECASE)
_OUTPUT_FIELDS = frozenset({"tool_name", "raw_output", "is_error"})
"""Fields that LlamaIndex's `ToolOutput` always has."""


def tool_run(tool: str | None, call_id: str | None, given: Value, answer: ToolResult) -> DialectReading:
    """Return the reading of a tool's run from its arguments, None where they are missing, and its result.

    A run without an id has the one that its result names.
    """
    args, content = (None, Content.ABSENT) if given is None else arguments(given)
    call = ToolCall(call_id or answer.call_id, tool, args, content)
    return DialectReading(SpanRole.TOOL, call=call, result=replace(answer, call_id=call.call_id))


def unquoted(value: Value) -> Value:
    """Return the value of JSON text, also a string; any other value as it is."""
    if isinstance(value, str) and value[:1] == '"':
        try:
            return parsed(value)
        except ValueError:
            return value
    return parsed_if_nested(value)


def unwrapped_arguments(value: Value) -> Value:
    """Return a tool's arguments out of the call of a Python function (OpenLLMetry, LangChain)."""
    opened = parsed_if_nested(value)
    if not is_object(opened):
        return value
    if opened.get("args") == [] and is_object(kwargs := opened.get("kwargs")):
        return kwargs
    if "input_str" not in opened:
        return value
    return inputs if is_object(inputs := opened.get("inputs")) else opened["input_str"]


def called_arguments(value: Value, names: Sequence[str] = ()) -> Value:
    """Return a tool's arguments out of the call of the function that ran it.

    `names` are those of its parameters, in their order. Positional arguments stay as they are where the names
    are not known. A function may have a keyword `args`.
    """
    opened = parsed_if_nested(value)
    if not is_object(opened) or not opened or not _CALL_FIELDS.issuperset(opened):
        return value
    args, kwargs = opened.get("args", []), opened.get("kwargs", {})
    if is_object(args) and len(opened) == 1:
        return args
    if not isinstance(args, list) or not is_object(kwargs) or len(args) > len(names):
        return value
    return {**dict(zip(names, args, strict=False)), **kwargs}


def tool_result(value: Value, tool: str | None) -> ToolResult:
    """Return a tool's result; LangChain's tools return a message that also names the call.

    JSON stays as it was written, except a string, which loses its quotes.
    """
    if value is None:
        return ToolResult(None, tool, None, content=Content.ABSENT)
    opened = unquoted(value)
    if is_object(opened) and "output" in opened and "kwargs" in opened:
        value = opened = opened["output"]
    if is_object(opened) and _OUTPUT_FIELDS.issubset(opened):
        return _tool_output(opened, tool)
    if (
        is_object(opened)
        and is_object(inner := opened.get("response"))
        and opened.get("name") == tool
        and tool
    ):
        # Google's `FunctionResponse`, which also names the call.
        text, content = result(inner)
        return ToolResult(name_of(opened.get("id")), tool, text, content=content)
    if is_object(opened) and ("tool_call_id" in opened or "kwargs" in opened or opened.get("type") == "tool"):
        message = message_of(opened, Role.TOOL) if is_message({"role": "tool", **opened}) else None
        if message is not None and message.results:
            return replace(message.results[0], tool=tool)
    text, content = result(opened if isinstance(opened, str) else value)
    return ToolResult(None, tool, text, content=content)


def marked_if_failed(result: ToolResult) -> ToolResult:
    """Return a result with an error where its only field, `result`, holds the text of one (Google's ADK).

    The object stays as it is, and rules that look at how a result begins do not see the text in it.
    """
    opened = parsed_if_nested(result.result)
    text = opened.get("result") if is_object(opened) and len(opened) == 1 else None
    is_error = result.error is None and isinstance(text, str) and _ERROR.match(text)
    return replace(result, error="tool_error") if is_error else result


def marked_in(half: Half) -> Half:
    """Return a model's input with an error on each result that holds the text of one."""
    if not any(message.results for message in half.messages or ()):
        return half
    messages = (
        replace(message, results=tuple(map(marked_if_failed, message.results)))
        for message in half.messages or ()
    )
    return replace(half, messages=tuple(messages))


def text_parts(value: Value) -> Value:
    """Return the parts in JSON text where all are text or JSON, else the value as it is."""
    opened = parsed_if_nested(value)
    if not isinstance(opened, list) or not opened:
        return value
    if all(is_object(part) and [*part] == ["text"] for part in opened):
        return opened
    only = opened[0]
    return only["json"] if len(opened) == 1 and is_object(only) and [*only] == ["json"] else value


def _tool_output(opened: dict[str, Value], tool: str | None) -> ToolResult:
    """Read LlamaIndex's `ToolOutput`: the model gets the text of its blocks, before 0.12 of its content."""
    blocks, body = opened.get("blocks"), opened.get("content", opened["raw_output"])
    texts = (
        [block.get("text") if is_object(block) else None for block in blocks]
        if isinstance(blocks, list)
        else []
    )
    if texts and all(isinstance(text, str) for text in texts):
        body = "\n".join(text for text in texts if isinstance(text, str))
    text, content = result(body)
    return ToolResult(None, tool, text, "tool_error" if opened["is_error"] is True else None, content)
