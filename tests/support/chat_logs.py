"""The desk's conversations as OpenAI-style chat logs."""

from __future__ import annotations

from itertools import groupby

from tracline.examples.desk.bot import DeskConversation
from tracline.examples.desk.scene import SceneStep
from tracline.schemas.event import Kind
from tracline.schemas.time import rfc3339


def chat_log(conversation: DeskConversation) -> dict[str, object]:
    """Return the conversation as an object with `id`, `agent`, `model`, `service` and chat `messages`.

    It has no messages between the agent and its sub-agents, like a real log.
    """
    visible = (step for step in conversation.steps if not step.nested)
    messages = [_message(list(steps)) for _, steps in groupby(visible, key=lambda step: step.message)]
    return {
        "id": conversation.session_id,
        "agent": conversation.agent.name,
        "model": conversation.agent.model,
        "service": conversation.agent.service,
        "messages": messages,
    }


def _message(steps: list[SceneStep]) -> dict[str, object]:
    first = steps[0]
    message: dict[str, object] = {"timestamp": rfc3339(first.time_ns)}
    if first.kind == Kind.TOOL_RESULT:
        message |= {
            "role": "tool",
            "tool_call_id": first.call_id,
            "name": first.tool,
            "content": first.result,
        }
        return message | ({"error": first.error} if first.error else {})
    if first.kind != Kind.TOOL_CALL:
        return message | {"role": first.kind, "content": first.text}
    calls = [
        {"id": step.call_id, "type": "function", "function": {"name": step.tool, "arguments": step.args}}
        for step in steps
    ]
    return message | {"role": "assistant", "content": None, "tool_calls": calls}
