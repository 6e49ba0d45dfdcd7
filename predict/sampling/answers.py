"""Answers to the calls of sampled continuations: empty, recorded ones, or those of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from ...schemas.chat.encode import ChatMessage
from ...schemas.event import Event, Kind, canonical_text
from ...schemas.open_calls import OpenCall, OpenCalls

Answers = Literal["empty", "replay"] | Callable[[str, str], str]
"""The answers to calls; a function gets the tool and the arguments as the model wrote them."""


def answering(tools: Answers, recorded: Sequence[Event]) -> Callable[[ChatMessage], str]:
    """Return what answers a call; `replay` takes the last result of the same call among recorded events.

    Calls are the same with one tool and the same arguments, JSON in canonical form. One that was not
    recorded has an empty answer.
    """
    if callable(tools):
        answer = tools
        return lambda call: answer(call["function"]["name"], call["function"]["arguments"])
    known = _results(recorded) if tools == "replay" else {}
    return lambda call: known.get(_key(call["function"]["name"], call["function"]["arguments"]), "")


def _results(recorded: Sequence[Event]) -> dict[tuple[str, str], str]:
    """Return the last result of each recorded call."""
    calls, found = OpenCalls(), dict[tuple[str, str], str]()
    for event in recorded:
        if event.kind is Kind.TOOL_CALL:
            calls.add(OpenCall(event.seq, event.call_id, event.tool, event.args, event.nested))
        elif event.kind is Kind.TOOL_RESULT:
            call = calls.answer(event.call_id, event.tool, strict=event.call_id is not None)
            if call is not None and call.tool is not None and event.result is not None:
                found[_key(call.tool, call.args or "{}")] = event.result
    return found


def _key(tool: str, arguments: str) -> tuple[str, str]:
    return tool, canonical_text(arguments)
