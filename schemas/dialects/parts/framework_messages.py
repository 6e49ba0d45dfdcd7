"""Flattened messages in the formats of some frameworks, converted to the usual one.

smolagents writes calls and results as text, AutoGen results in a separate list, and some frameworks leave out
the arguments of a call that has none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...span import Span, Value
from ..names import scopes
from .field_prompts import fields_of, in_words
from .message_parts import NO_ANSWER, kind_of, text_of_parts
from .values import is_object, parsed_if_nested

_CALLS, _ANSWERS = "tool-call", "tool-response"
"""Roles that only smolagents has."""
_CALLING, _OBSERVED = "Calling tools:\n", "Observation:\n"
_LITERAL_CHARS_MAX = 100_000


def messages_of(span: Span, found: list[Value]) -> list[Value]:
    """Return the messages of a flattened list, each unwrapped."""
    messages = list(_as_usual([_inner(span, member) for member in found]))
    fields = fields_of(span) if span.scope == scopes.DSPY else None
    return messages if fields is None else in_words(messages, fields)


def _inner(span: Span, member: Value) -> Value:
    if not is_object(member):
        return member
    message = member.get("message", member)
    if not is_object(message):
        return message
    results = member.get("function")
    if isinstance(results, list) and message is not member:
        parts = [_function_result(result) for result in results]
        return {**message, "content": [part for part in parts if part is not None]}
    if span.scope in scopes.NO_EMPTY_ARGUMENTS and isinstance(calls := message.get("tool_calls"), list):
        return {**message, "tool_calls": [_with_arguments(call) for call in calls]}
    return message


def _function_result(value: Value) -> Value:
    """Return AutoGen's result of a function as a part of a message."""
    opened = parsed_if_nested(value)
    return {"type": "tool_result", **opened} if is_object(opened) else None


def _with_arguments(call: Value) -> Value:
    if not is_object(call) or not is_object(outer := call.get("tool_call")):
        return call
    function = outer.get("function")
    if not is_object(function) or "arguments" in function or "name" not in function:
        return call
    return {**call, "tool_call": {**outer, "function": {**function, "arguments": "{}"}}}


def _as_usual(messages: list[Value]) -> Iterator[Value]:
    """Give smolagents' messages the usual roles; each answer belongs to the calls right before it."""
    called: list[dict[str, Value]] = []
    for message in messages:
        role = kind_of(message, "role").lower() if is_object(message) else ""
        text = text_of_parts(message) if is_object(message) and role in (_CALLS, _ANSWERS) else None
        if role == _CALLS:
            called = _calls_in(text or "")
            # Calls that cannot be read are not the agent's words either.
            yield {"role": "assistant", **({"tool_calls": [*called]} if called else {})}
        elif role == _ANSWERS:
            yield from _answers(text or "", called)
            called = []
        else:
            yield message


def _calls_in(text: str) -> list[dict[str, Value]]:
    """Return the calls in a text of Python literals; none where they cannot be read."""
    _, mark, written = text.partition(_CALLING)
    if not mark or len(written) > _LITERAL_CHARS_MAX:
        return []
    try:
        opened: Value = ast.literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [call for call in opened if is_object(call)] if isinstance(opened, list) else []


def _answers(text: str, called: list[dict[str, Value]]) -> Iterator[Value]:
    """Return a result for each call; the results of several calls are one text without separators.

    An error of a step without recorded calls is no result, but makes the model's next call another one.
    """
    if not called:
        yield {"role": "tool", "type": NO_ANSWER}
    is_result = len(called) == 1 and text.startswith(_OBSERVED)
    for call in called:
        body: dict[str, Value] = {"content": text.removeprefix(_OBSERVED)} if is_result else {}
        yield {"role": "tool", "tool_call_id": call.get("id"), **body}
