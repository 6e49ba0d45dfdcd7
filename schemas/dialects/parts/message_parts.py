"""The content of one message: texts, tool calls and results, in the spellings of the models' interfaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from ...chat.message import flagged_error, string_of
from ...event import Content
from ...span import Value
from ...span_content import ToolCall, ToolResult
from .reading import worst
from .values import REDACTIONS, arguments, is_cut, is_object, result, whole

CALLS = frozenset(
    [
        *("tool_call", "tool_use", "tool-call", "function_call", "custom_tool_call", "server_tool_use"),
        *("server_tool_call", "mcp_call", "mcp_tool_use"),
    ]
)
"""Types of parts that are calls: OpenTelemetry's, Anthropic's, the AI SDK's, OpenAI's."""
RESULTS = frozenset(
    [
        *("tool_call_response", "tool_result", "tool-result", "tool-error", "function_call_output"),
        *(
            "custom_tool_call_output",
            "server_tool_call_response",
            "mcp_tool_result",
            "web_search_tool_result",
        ),
    ]
)
"""Types of parts that are results."""
NO_ANSWER = "tool message without an answer"
"""The type of a tool's message that answers no known call."""
THOUGHTS = frozenset(
    ["reasoning", "thinking", "redacted_thinking", "redacted-reasoning", "reasoning-file", "compaction"]
)
"""Types of parts that no recipient gets."""
_TEXTS = frozenset(["text", "input_text", "output_text", "refusal", ""])
_KEYED_CALLS = ("toolUse", "functionCall", "function_call")
_KEYED_RESULTS = ("toolResult", "functionResponse", "function_response")
"""Bedrock and Gemini name a part's type by its key."""

_CALL_IDS = ("call_id", "tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "id")
_NAMES = ("name", "toolName", "tool_name", "tool.name")
_ARGUMENTS = ("arguments", "args", "input", "tool.args", "function_call_arguments_json", "server_tool_call")
_BODIES = ("response", "result", "output", "content", "server_tool_call_response", "error")


PlainParts: TypeAlias = tuple[list[str], list[ToolCall], list[ToolResult]]
"""The texts, calls and results of a message."""


@dataclass(slots=True)
class Parts:
    """The parts of a message found so far; `content` is the worst state of its texts."""

    texts: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    results: list[ToolResult] = field(default_factory=list[ToolResult])
    content: Content = Content.CAPTURED
    wordless: bool = False

    @property
    def text(self) -> str | None:
        """Return the texts, a line each; empty where the message holds only pictures and the like."""
        return "\n".join(self.texts) if self.texts or self.wordless else None

    def add_text(self, text: str) -> None:
        """Add a text."""
        if text in REDACTIONS:
            self.content = worst(self.content, Content.REDACTED)
        else:
            self.texts.append(whole(text))

    def add(self, part: Value) -> None:
        """Add what a part of a message's content holds."""
        if isinstance(part, str):
            self.add_text(part)
        elif not isinstance(part, dict):
            self.content = worst(self.content, Content.TRUNCATED)
        else:
            inner = part.get("message_content")
            self._add_object({**part, **inner} if isinstance(inner, dict) else part)

    def _add_object(self, part: dict[str, Value]) -> None:
        kind, text = kind_of(part), part.get("text", part.get("content"))
        if kind == "text" and isinstance(text, str):
            self.add_text(text)
            return
        if kind in THOUGHTS or part.get("thought") is True or "reasoningContent" in part:
            return
        call, answer = _keyed(part, _KEYED_CALLS), _keyed(part, _KEYED_RESULTS)
        if kind in CALLS or call is not None:
            self.calls.append(call_of(call or part))
        elif kind in RESULTS or answer is not None:
            self.results.append(result_of(answer or part))
        else:
            self._add_text_of(part, kind)

    def _add_text_of(self, part: dict[str, Value], kind: str) -> None:
        texts = [part.get("text"), *((part.get("content"), part.get("refusal")) if kind in _TEXTS else ())]
        text = next((text for text in texts if isinstance(text, str)), None)
        if text is not None:
            self.add_text(text)
        elif kind in _TEXTS and kind:
            # A text part without a text was captured without its content.
            self.content = worst(self.content, Content.ABSENT)
        else:
            self.wordless = True


def plain_text(part: Value) -> str | None:
    """Return the text of a part of the exact form of OpenTelemetry's conventions, None for any other."""
    if not isinstance(part, dict) or len(part) != 2 or part.get("type") != "text":
        return None
    text = part.get("content")
    return whole(text) if isinstance(text, str) and text not in REDACTIONS else None


def plain_parts(found: list[Value]) -> PlainParts | None:
    """Return the parts of a message where each has the exact form of OpenTelemetry's conventions, else None.

    They are what `Parts.add` makes of them: captured texts, calls and textual results without further fields.
    """
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for part in found:
        if not isinstance(part, dict):
            return None
        kind, size = part.get("type"), len(part)
        if kind == "text" and size == 2:
            text = part.get("content")
            if not isinstance(text, str) or text in REDACTIONS:
                return None
            texts.append(whole(text))
        elif kind == "tool_call" and size == 4 and "id" in part and "arguments" in part:
            tool = name_of(part.get("name"))
            if tool is None:
                return None
            calls.append(ToolCall(name_of(part["id"]), tool, *arguments(part["arguments"])))
        elif kind == "tool_call_response" and size == 3 and "id" in part:
            body = part.get("response", part.get("result"))
            if not isinstance(body, str):
                return None
            answer, content = result(body)
            results.append(ToolResult(name_of(part["id"]), None, answer, None, content))
        else:
            return None
    return texts, calls, results


def _keyed(part: Mapping[str, Value], keys: tuple[str, ...]) -> dict[str, Value] | None:
    for key in keys:
        inner = part.get(key)
        if isinstance(inner, dict):
            return inner
    return None


def kind_of(value: Mapping[str, Value], key: str = "type") -> str:
    """Return the type of a message or a part; empty where it has none."""
    kind = value.get(key)
    return kind if isinstance(kind, str) else ""


def text_of_parts(message: Mapping[str, Value]) -> str | None:
    """Return the texts of a message's content, a line each."""
    content, parts = message.get("contents", message.get("content")), Parts()
    for part in content if isinstance(content, list) else [] if content is None else [content]:
        parts.add(part)
    return parts.text


def call_of(value: Mapping[str, Value]) -> ToolCall:
    """Return a tool call, nested (`function`, `tool_call`) or flat. A missing tool name was not captured."""
    outer = _keyed(value, ("tool_call",)) or value
    inner = _keyed(outer, ("function", "custom", "function_call")) or outer
    tool = first_name(inner, _NAMES)
    key = next((key for key in _ARGUMENTS if key in inner), None)
    args, content = (None, Content.ABSENT) if key is None else arguments(inner[key])
    if tool is None:
        content = worst(content, Content.ABSENT)
    return ToolCall(first_name(outer, _CALL_IDS) or first_name(inner, _CALL_IDS), tool, args, content)


def marked_if_cut(call: ToolCall) -> ToolCall:
    """Return a call with arguments from a separate attribute, marked where they were cut.

    Their beginning stays, since a rule may find something in it.
    """
    is_whole = call.args is None or not is_cut(call.args)
    return call if is_whole else replace(call, content=Content.TRUNCATED)


def result_of(value: Mapping[str, Value]) -> ToolResult:
    """Return a tool's result, with its flagged error."""
    key = next((key for key in _BODIES if key in value), None)
    body = value[key] if key is not None else None
    if value.get("type") == "tool-error" or value.get("isError") is True:
        error = "tool_error"
    else:
        error = flagged_error(value)
    if is_object(body) and (kind := kind_of(body)) in _OUTPUTS and ("value" in body or "reason" in body):
        error = error or ("tool_error" if kind in _FAILED_OUTPUTS else None)
        body = body.get("value", body.get("reason"))
    text, content = (None, Content.ABSENT) if key is None else result(body)
    if error is not None:
        # A text too long for a type is still an error.
        error = string_of(error) or "tool_error"
    return ToolResult(first_name(value, _CALL_IDS), first_name(value, _NAMES), text, error, content)


_FAILED_OUTPUTS = frozenset(["error-text", "error-json", "execution-denied"])
_OUTPUTS = _FAILED_OUTPUTS | {"text", "json", "content"}
"""Types of the objects in which the AI SDK wraps a result, since version 5."""


def first_name(value: Mapping[str, Value], keys: tuple[str, ...]) -> str | None:
    """Return the first of the fields with an id or a name: text that is not empty, or an integer's digits."""
    return next((found for key in keys if (found := name_of(value.get(key))) is not None), None)


def first_text(value: Mapping[str, Value], keys: tuple[str, ...]) -> str | None:
    """Return the first of the fields with a text that is neither empty nor too long for a name."""
    return next((found for key in keys if (found := string_of(value.get(key))) is not None), None)


def name_of(value: Value) -> str | None:
    """Return an id or a name, None where the value is none or too long for one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if -(2**64) < value < 2**64 else None
    return string_of(value)
