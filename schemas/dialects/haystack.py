"""Haystack's messages, which OpenInference writes as Python shows objects, in the JSON of a value."""

from __future__ import annotations

import ast
import re
from typing import cast

from ..span import Span, Value
from ..span_content import Role, SpanRole
from .names import openinference_0_1 as oi
from .parts.messages import listed
from .parts.reading import ABSENT, TRUNCATED, DialectReading, Half
from .parts.values import is_object, parsed_if_nested

AGENT = "Agent.run"
"""The name of an agent's span; Haystack's agents call models without spans of their own."""
_IN, _OUT = "messages", ("replies", "messages")
"""Fields of a component's input and output with messages."""
_ROLE = re.compile(r"ChatMessage\(_role=<ChatRole\.\w+: '(\w+)'>")
_BEHIND = ", _name="
"""The text after the content: the name, and the metadata of the model's provider."""
_CHARS_MAX = 100_000


def read_agent(span: Span) -> DialectReading:
    """Read an agent's run: its input, and all messages, calls and results."""
    return DialectReading(SpanRole.AGENT, input=input_of(span), output=output_of(span))


def input_of(span: Span) -> Half:
    """Return the messages of a component's input; absent where there are none."""
    opened = parsed_if_nested(span.attributes.get(oi.INPUT_VALUE))
    return _half(opened.get(_IN), Role.USER) if is_object(opened) else ABSENT


def output_of(span: Span) -> Half:
    """Return the messages of a component's output; absent where there are none."""
    opened = parsed_if_nested(span.attributes.get(oi.OUTPUT_VALUE))
    name = next((name for name in _OUT if name in opened), None) if is_object(opened) else None
    return ABSENT if name is None or not is_object(opened) else _half(opened[name], Role.ASSISTANT)


def _half(value: Value, speaker: Role) -> Half:
    if not isinstance(value, list) or not all(isinstance(item, str) and _ROLE.match(item) for item in value):
        return ABSENT
    try:
        found = [_message(item) for item in value if isinstance(item, str)]
    except (KeyError, ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return TRUNCATED
    return listed(found, speaker) if found else ABSENT


def _message(text: str) -> Value:
    """Return a message as the models' interfaces have it; raise ValueError where it cannot be read."""
    head, behind, _ = text.rpartition(_BEHIND)
    if not behind or len(text) > _CHARS_MAX:
        raise ValueError("is no whole message")
    made = ast.parse(_ROLE.sub(r"ChatMessage(_role='\1'", head, count=1) + ")", mode="eval").body
    fields = _fields(made)
    content = fields["_content"]
    parts = [_part(item) for item in content.elts] if isinstance(content, ast.List) else []
    return {"role": cast("str", ast.literal_eval(fields["_role"])), "content": parts}


def _part(node: ast.expr) -> Value:
    """Return a part of a message: a text, a call, a result; anything else by its name alone."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if name == "ToolCallResult":
        fields = _fields(node)
        origin = _call(fields["origin"])
        failed = bool(ast.literal_eval(fields["error"]))
        body = {"tool_call_id": origin["id"], "name": origin["name"], "is_error": failed}
        return {"type": "tool_result", **body, "content": _result(fields["result"])}
    if name == "ToolCall":
        return {"type": "tool_call", **_call(node)}
    if name == "TextContent":
        return {"type": "text", "text": _value(_fields(node)["text"])}
    return {"type": "reasoning" if name == "ReasoningContent" else name or "unknown"}


def _call(node: ast.expr) -> dict[str, Value]:
    fields = _fields(node)
    named = {"name": _value(fields["tool_name"]), "arguments": _value(fields["arguments"])}
    return {**named, "id": _value(fields["id"]) if "id" in fields else None}


def _result(node: ast.expr) -> Value:
    """Return a tool's result: a value, or parts of a message."""
    if isinstance(node, ast.List) and any(isinstance(item, ast.Call) for item in node.elts):
        return [_part(item) for item in node.elts]
    return _value(node)


def _value(node: ast.expr) -> Value:
    return cast("Value", ast.literal_eval(node))


def _fields(node: ast.expr) -> dict[str, ast.expr]:
    """Return the constructor's keywords of an object; raise ValueError for anything else."""
    if not isinstance(node, ast.Call):
        raise ValueError("is no object")
    return {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
