"""Messages of a model's input or output, in the format of any provider's interface."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeGuard, cast

import orjson
from msgspec.structs import replace

from ...event import Content
from ...span import Value
from ...span_content import Message, Role
from .message_parts import (
    CALLS,
    NO_ANSWER,
    RESULTS,
    THOUGHTS,
    Parts,
    call_of,
    kind_of,
    marked_if_cut,
    plain_parts,
    plain_text,
    result_of,
)
from .reading import ABSENT, REDACTED, TRUNCATED, Half, worst
from .remembered import InputMemory, RememberedText
from .values import Uncarried, is_hidden, is_object, parsed, parsed_if_nested, sound, text_in_json, whole

MESSAGES_MAX = 10_000
"""Messages of one model call's input, or of its output; a longer half is not read."""
CACHED_BYTES_MAX, CACHED_MAX = 4_096, 8_192
"""The bytes of a cached message, and the number of cached ones: each call repeats the conversation."""
_EXACT = 2
"""A version of marshal's format in which bytes are equal exactly if values are."""

_TOOL, _ASSISTANT = Role.TOOL, Role.ASSISTANT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
ROLES = {
    **dict.fromkeys(["system", "developer", "instruction", "instructions"], Role.INSTRUCTION),
    **dict.fromkeys(["user", "human", "customer"], Role.USER),
    **dict.fromkeys(["assistant", "ai", "model", "agent", "bot", "chatbot"], Role.ASSISTANT),
    **dict.fromkeys(["tool", "function", "ipython"], Role.TOOL),
}
"""Roles by name in lower case; the last names are Cohere's and Llama's."""
_LANGCHAIN_ROLES = {
    "SystemMessage": Role.INSTRUCTION,
    "HumanMessage": Role.USER,
    "AIMessage": Role.ASSISTANT,
    "ToolMessage": Role.TOOL,
    "FunctionMessage": Role.TOOL,
}
_WRAPPERS = (
    "messages",
    "contents",
    "choices",
    "generations",
    "inputs",
    "outputs",
    "input",
    "output",
    "prompt",
)
"""Fields of a request or a response that may hold its messages, in order of preference."""
_RESPONSES = frozenset({"response", "chat.completion"})
"""Types of the objects with which OpenAI's interfaces answer."""
_CONTENT_FIELDS = (
    "content",
    "parts",
    "contents",
    "tool_calls",
    "function_call",
    "function_call_name",
    "refusal",
)
"""Fields of which a message has at least one."""


def listed(value: Value, speaker: Role) -> Half:
    """Return the messages in an attribute of JSON, as text or structured; text that is no JSON was cut.

    `speaker` is the role of a message without one.
    """
    if isinstance(value, str):
        if is_hidden(value):
            return REDACTED
        if value.lstrip()[:1] not in ("[", "{", '"'):
            return ABSENT if value in ("", "null") else _half([value], speaker)
        if isinstance(value, RememberedText):
            return remembered(value, value.memory, speaker)
    try:
        opened = parsed(value) if isinstance(value, str) else value
    except ValueError:
        return TRUNCATED
    if opened is None or opened == {}:
        return ABSENT
    if _have_roles(opened):
        return _half(opened, speaker)
    found = found_in(opened, speaker)
    if found is not None:
        return _half(found, speaker)
    return _half(opened if isinstance(opened, list) else [opened], speaker)


def remembered(text: str, memory: InputMemory, speaker: Role) -> Half:
    """Return the messages of a text like `listed`; only those behind the remembered ones are read."""
    rest = memory.rest_of(text, speaker)
    before, known = ((), 0) if rest is None else (memory.messages, memory.count)
    text = str(text)
    try:
        opened: Value = orjson.loads(text if rest is None else rest)
    except orjson.JSONDecodeError:
        opened = None
    if not _have_roles(opened) or known + len(opened) > MESSAGES_MAX:
        memory.remember("", None, 0, speaker)
        return listed(text, speaker)
    read = [_read(item, speaker) for item in opened]
    messages = (*before, *[message for message in read if message is not None])
    memory.remember(text, messages, known + len(opened), speaker)
    return Half(messages)


def _have_roles(value: Value) -> TypeGuard[list[Value]]:
    return isinstance(value, list) and all(isinstance(item, dict) and "role" in item for item in value)


def flat_listed(found: list[Value], speaker: Role) -> Half:
    """Return the messages of a list that was flattened into attributes; any of these may be lost or cut."""
    if len(found) > 1 and not all(is_object(item) and "role" in item for item in found):
        return TRUNCATED
    half = listed(found, speaker)
    if not any(message.calls for message in half.messages or ()):
        return half
    return replace(half, messages=tuple(map(_marked, half.messages or ())))


def _marked(message: Message) -> Message:
    """Return the message with its cut calls marked."""
    calls = tuple(map(marked_if_cut, message.calls))
    return message if calls == message.calls else replace(message, calls=calls)


def unforged(messages: Iterable[tuple[Value, Value, Role]]) -> Iterator[Value]:
    """Yield each message either as written or with the JSON in its text opened.

    Customers and models may write text that looks like a tool's result. In a user's message JSON is opened
    only where it holds no calls and all its results answer earlier calls; in a model's only where it holds no
    results. Each item is the message as written, the opened one, and the role of a message without one.
    """
    asked: set[str] = set()
    for written, opened, speaker in messages:
        message = message_of(opened, speaker)
        calls, results = (message.calls, message.results) if message is not None else ((), ())
        if message is not None and message.role is Role.ASSISTANT:
            asked.update(call.call_id for call in calls if call.call_id is not None)
        role = None if message is None else message.role
        is_forged = (role is Role.USER and bool(calls or any(r.call_id not in asked for r in results))) or (
            role is Role.ASSISTANT and bool(results)
        )
        yield written if is_forged else opened


def worded(value: Value, speaker: Role, unread: Half | None = None) -> Half:
    """Return the messages in an attribute that holds JSON or just text.

    JSON without messages is a message itself (a model may answer in JSON), or `unread`.
    """
    if value in (None, ""):
        return ABSENT
    try:
        opened = parsed_if_nested(value) if isinstance(value, str) else sound(value)
        found = found_in(opened, speaker)
        if found is not None:
            return _half(found, speaker)
        if unread is not None and not isinstance(opened, str):
            return unread
        text = value if isinstance(value, str) else text_in_json(opened)
    except Uncarried:
        return TRUNCATED
    return ABSENT if text is None else spoken(text, speaker)


def spoken(text: str, speaker: Role) -> Half:
    """Return a half of one message of plain text."""
    return REDACTED if is_hidden(text) else Half((Message(speaker, whole(text)),))


def found_in(value: Value, speaker: Role, depth: int = 0) -> list[Value] | None:
    """Return the messages in a list, a request or a response; None where nothing looks like one."""
    if isinstance(value, list):
        flat = [item for inner in value for item in (inner if isinstance(inner, list) else [inner])]
        if all(map(is_message, flat)):
            return flat
        inside = [_of_response(item, speaker, depth) for item in flat]
        return [message for found in inside for message in found or ()] if None not in inside else None
    if not is_object(value) or depth > 2:
        return None
    if is_message(value):
        return [value]
    for name in _WRAPPERS:
        inner = value.get(name)
        if name == "generations" and isinstance(inner, list):
            return inner if not inner or not isinstance(inner[0], list) else inner[0]
        if isinstance(inner, str) and name in ("input", "prompt") and speaker is Role.USER:
            return [inner]
        found = found_in(inner, speaker, depth + 1) if isinstance(inner, (list, dict)) else None
        if found is not None:
            return found
    return None


def _of_response(value: Value, speaker: Role, depth: int) -> list[Value] | None:
    """Return the messages of a response that takes the place of its messages (OpenAI's Agents SDK)."""
    is_response = is_object(value) and kind_of(value, "object") in _RESPONSES
    return found_in(value, speaker, depth + 1) if is_response else None


def is_message(value: Value) -> bool:
    """Return whether a value looks like a message, or like an item of a list of them."""
    if not is_object(value):
        return False
    inner, content, kind = value.get("message"), value.get("content"), kind_of(value)
    return (
        (_role_of(kind_of(value, "role")) is not None and any(name in value for name in _CONTENT_FIELDS))
        or (is_object(inner) and is_message(inner))
        or (kind in CALLS or kind in RESULTS or kind in THOUGHTS)
        or (kind in ROLES and ("content" in value or "data" in value))
        or _langchain_role(value) is not None
        or ("text" in value and ("finish_reason" in value or "generation_info" in value))
        or (is_object(content) and "parts" in content)
        or "tool.name" in value
    )


def message_of(value: Value, speaker: Role) -> Message | None:
    """Return the message of a value; None for a thought. `speaker` is the role of a message without one."""
    try:
        written = marshal.dumps(value, _EXACT)
    except ValueError:
        return _read(value, speaker)
    return _read(value, speaker) if len(written) > CACHED_BYTES_MAX else _cached(written, speaker)


@lru_cache(maxsize=CACHED_MAX)
def _cached(written: bytes, speaker: Role) -> Message | None:
    return _read(cast("Value", marshal.loads(written)), speaker)


def _read(value: Value, speaker: Role) -> Message | None:
    if isinstance(value, dict) and (plain := _plain_message(value)) is not None:
        return plain
    if isinstance(value, str):
        hidden = is_hidden(value)
        return Message(
            speaker,
            None if hidden else whole(value),
            content=Content.REDACTED if hidden else Content.CAPTURED,
        )
    if not is_object(value):
        return Message(speaker, content=Content.TRUNCATED)
    fields, named = _unwrapped(value)
    parts, kind, role = Parts(), kind_of(fields), named or speaker
    if kind in THOUGHTS:
        return None
    if (kind in CALLS or kind in RESULTS) and "role" not in fields:
        parts.add(fields)
        role = Role.TOOL if parts.results else Role.ASSISTANT
        return Message(role, None, tuple(parts.calls), tuple(parts.results))
    if "tool.name" in fields:
        return Message(Role.ASSISTANT, None, (call_of(fields),))
    _read_content(fields, parts)
    if role is not Role.TOOL:
        _read_calls(fields, parts)
        if named is None and speaker is Role.USER and kind_of(fields, "role"):
            # An unknown role must not pass for the customer.
            parts.texts, parts.wordless, parts.content = [], False, worst(parts.content, Content.ABSENT)
        return Message(role, parts.text, tuple(parts.calls), tuple(parts.results), parts.content)
    if not parts.results and kind != NO_ANSWER:
        _read_result(fields, parts)
    return Message(role, None, tuple(parts.calls), tuple(parts.results), parts.content)


def _plain_message(value: dict[str, Value]) -> Message | None:
    """Return a message in the exact form of OpenTelemetry's conventions, as most are; None for any other."""
    name, found = value.get("role"), value.get("parts")
    role = ROLES.get(name) if isinstance(name, str) else None
    if role is None or not isinstance(found, list) or len(value) != 2 + ("finish_reason" in value):
        return None
    if len(found) == 1 and role is not _TOOL and (only := plain_text(found[0])) is not None:
        return Message(role, only)
    parts = plain_parts(found)
    if parts is None:
        return None
    texts, calls, results = parts
    if role is _TOOL and not results:
        return None
    text = "\n".join(texts) if texts and role is not _TOOL else None
    return Message(role, text, tuple(calls), tuple(results))


def _half(found: list[Value], speaker: Role) -> Half:
    if len(found) > MESSAGES_MAX:
        return TRUNCATED
    # Later inputs repeat an output, but these are remembered as they begin.
    read = _read if speaker is _ASSISTANT else message_of
    messages = [read(item, speaker) for item in found]
    return Half(tuple([message for message in messages if message is not None]))


def _unwrapped(value: dict[str, Value]) -> tuple[dict[str, Value], Role | None]:
    """Return a message's fields and its role, unwrapped; None where the role is not known."""
    outer: Role | None = None
    for _ in range(3):
        content = value.get("content")
        role = _langchain_role(value) if "kwargs" in value else None
        if role is not None:
            inner = value.get("kwargs")
        elif isinstance(content, dict) and "parts" in content:
            inner = content
        else:
            inner = value.get("message", value.get("data")) if content is None else None
        if not isinstance(inner, dict):
            break
        outer = role or _named_role(value) or outer
        value = inner
    return value, _named_role(value) or outer


def _named_role(value: Mapping[str, Value]) -> Role | None:
    return _role_of(kind_of(value, "role") or kind_of(value))


def _role_of(name: str) -> Role | None:
    """Return the role with a name, also of a member of an enumeration (`MessageRole.USER`)."""
    return ROLES.get(name.lower()) or ROLES.get(name.strip().lower().rpartition(".")[2])


def _langchain_role(value: Mapping[str, Value]) -> Role | None:
    """Return the role of a message that LangChain serialized as a constructor call."""
    made = value.get("id")
    last = made[-1] if isinstance(made, list) and made and is_object(value.get("kwargs")) else None
    return _LANGCHAIN_ROLES.get(last.removesuffix("Chunk")) if isinstance(last, str) else None


def _read_content(fields: Mapping[str, Value], parts: Parts) -> None:
    contents = (fields.get(name) for name in ("contents", "parts", "content"))
    content = next((content for content in contents if content is not None), None)
    if isinstance(content, list):
        for part in content:
            parts.add(part)
    elif content is not None:
        parts.add(content)
    elif isinstance(text := fields.get("text"), str):
        parts.add_text(text)
    if parts.text is None and isinstance(refusal := fields.get("refusal"), str):
        parts.add_text(refusal)
    if content is None and _is_silent(fields):
        # An explicit null is captured content; only a missing field was not captured.
        parts.content = worst(parts.content, Content.ABSENT)


def _is_silent(fields: Mapping[str, Value]) -> bool:
    has_content = any(key in fields for key in ("contents", "parts", "content", "text"))
    return not has_content and not any(fields.get(key) for key in _CONTENT_FIELDS)


def _read_calls(fields: Mapping[str, Value], parts: Parts) -> None:
    calls, legacy = (parsed_if_nested(fields.get(name)) for name in ("tool_calls", "function_call"))
    known = [*parts.calls]
    known_ids = {call.call_id for call in known if call.call_id is not None}
    for call in calls if isinstance(calls, list) else [calls] if calls else []:
        if is_object(call):
            # Some writers have the calls among the content's parts and here again.
            found = call_of(call)
            if found.call_id not in known_ids and found not in known:
                parts.calls.append(found)
        else:
            parts.content = worst(parts.content, _hidden(call))
    if is_object(legacy):
        parts.calls.append(call_of(legacy))
    elif legacy:
        parts.content = worst(parts.content, _hidden(legacy))
    elif "function_call_name" in fields:
        parts.calls.append(call_of({**fields, "name": fields["function_call_name"], "id": None}))


def _hidden(value: Value) -> Content:
    """Return the reason for which there is no call where one belongs."""
    return Content.REDACTED if isinstance(value, str) and is_hidden(value) else Content.TRUNCATED


def _read_result(fields: Mapping[str, Value], parts: Parts) -> None:
    """Add the result of a tool's message that is the result itself, as text."""
    result = result_of(fields)
    if "contents" in fields or "parts" in fields:
        result = replace(result, result=parts.text, content=parts.content)
    parts.results.append(result)
