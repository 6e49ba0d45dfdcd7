"""The calls and results of a conversation's history, where what tells it names the two in different ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..step import Message, Role, ToolCall, ToolResult


def with_ids_of_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with the ids of calls made those of their results, where none of the two agree.

    OpenAI's Responses have an id for the item that is a call beside the call's own. Results whose ids fit no
    call answer the calls right before them in order, where they are as many and name no other tools.
    """
    asked = {call.call_id for message in messages for call in message.calls}
    if all(result.call_id in asked or not result.call_id for one in messages for result in one.results):
        return tuple(messages)
    found, named = list(messages), dict[int, list[str | None]]()
    calls: list[tuple[int, ToolCall]] = []
    results: list[ToolResult] = []
    for place, message in enumerate((*messages, Message(Role.USER))):
        if results and not message.results:
            for (at, _), result in zip(calls, results, strict=False) if _agree(calls, results, asked) else ():
                named.setdefault(at, []).append(result.call_id)
            calls, results = [], []
        results += message.results
        calls += [(place, call) for call in message.calls]
        if message.role is Role.USER and not message.results:
            calls = []
    for at, ids in named.items():
        renamed = zip(found[at].calls, ids, strict=False)
        if len(ids) == len(found[at].calls):
            found[at] = replace(found[at], calls=tuple(replace(call, call_id=name) for call, name in renamed))
    return tuple(found)


def _agree(
    calls: Sequence[tuple[int, ToolCall]], results: Sequence[ToolResult], asked: set[str | None]
) -> bool:
    """Return whether results that fit no call by their ids can answer these calls, each one."""
    return len(calls) == len(results) and all(
        result.call_id and result.call_id not in asked and result.tool in (None, call.tool)
        for (_, call), result in zip(calls, results, strict=True)
    )
