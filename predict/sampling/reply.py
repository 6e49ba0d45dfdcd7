"""The answer of a model, read strictly: what cannot be stepped on is an error without any of its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ...schemas.chat.encode import ChatMessage
from ..error import PredictError

ChatModel = Callable[[Sequence[ChatMessage]], Mapping[str, Any]]
"""A model: the messages of a conversation to the next message."""

CALLS_MAX = 128
"""Calls in one message of a model."""

_FIELDS = ("content", "refusal")


def unusable(what: str, where: str = "model") -> PredictError:
    """Return the error for an answer that cannot be used; `what` has nothing of its text."""
    hint = "check that the address serves OpenAI's chat completions, and the name of the model"
    return PredictError("TRL821", where, what, hint)


def read_reply(reply: object, number: int) -> ChatMessage:
    """Return the message of the assistant in a model's answer: its content and its calls, each with an id.

    `number` is that of the message in the conversation. Raises PredictError (TRL821) for anything else.
    """
    if not isinstance(reply, Mapping):
        raise unusable(f"the answer is no message but {_kind(reply)}")
    found = cast("Mapping[str, Any]", reply)
    if found.get("role", "assistant") != "assistant":
        raise unusable("the answer is a message of another role than the assistant's")
    message: ChatMessage = {"role": "assistant", "content": None}
    message |= {key: found[key] for key in _FIELDS if found.get(key) is not None}
    given: Any = found.get("tool_calls") or []
    calls: list[Any] = cast("list[Any]", given) if isinstance(given, list) else []
    if calls != given or len(calls) > CALLS_MAX:
        raise unusable(f"the calls of the answer are no list of up to {CALLS_MAX}")
    read = [_call(call, f"call_{number}_{place}") for place, call in enumerate(calls)]
    if read:
        message["tool_calls"] = read
    ids = [call["id"] for call in read]
    if len(set(ids)) < len(ids):
        raise unusable("two calls of the answer have one id")
    return message


def _call(call: object, own_id: str) -> ChatMessage:
    function: object = cast("Mapping[str, Any]", call).get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise unusable("a call of the answer has no function")
    given, named = cast("Mapping[str, Any]", call), cast("Mapping[str, Any]", function)
    name, arguments, call_id = named.get("name"), named.get("arguments", "{}"), given.get("id") or own_id
    if (
        not isinstance(name, str)
        or not name
        or not isinstance(arguments, str)
        or not isinstance(call_id, str)
    ):
        raise unusable("a call of the answer has no name, or arguments or an id that are no text")
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
