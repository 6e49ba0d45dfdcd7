"""The scripted model's replies as the APIs of the providers write them, at once and as streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .model_replies import Reply

CREATED = 1_790_000_000
MODEL = "gpt-4o-mini"
Body = dict[str, Any]


def thirds(text: str) -> list[str]:
    """Cut a text into three, as a stream brings it."""
    third = max(1, len(text) // 3)
    return [part for part in (text[:third], text[third : 2 * third], text[2 * third :]) if part]


# OpenAI, chat completions

CHAT_USAGE = {"prompt_tokens": 120, "completion_tokens": 20, "total_tokens": 140}


def chat(reply: Reply, request: Mapping[str, Any]) -> Body:
    """Return a chat completion."""
    message: Body = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
            for call in reply.calls
        ]
    finish = "tool_calls" if reply.calls else "stop"
    return {
        **_chat_head(reply, request, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": CHAT_USAGE,
    }


def chat_stream(reply: Reply, request: Mapping[str, Any]) -> Iterator[Body]:
    """Yield the chunks of a chat completion."""
    head = _chat_head(reply, request, "chat.completion.chunk")

    def chunk(delta: Body, finish: str | None = None) -> Body:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": None if reply.calls else ""})
    for part in thirds(reply.text):
        yield chunk({"content": part})
    for index, call in enumerate(reply.calls):
        function = {"name": call.tool, "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}
        )
        for part in thirds(call.arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": CHAT_USAGE}


def _chat_head(reply: Reply, request: Mapping[str, Any], kind: str) -> Body:
    model = request.get("model", MODEL)
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": CREATED, "model": model}


# OpenAI, responses


def responses(reply: Reply, request: Mapping[str, Any]) -> Body:
    """Return a response."""
    return _response(reply, request, _items(reply), "completed")


def _items(reply: Reply) -> list[Body]:
    if not reply.calls:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        message = {"type": "message", "id": f"msg_{reply.id}", "role": "assistant", "status": "completed"}
        return [{**message, "content": content}]
    return [
        {
            "type": "function_call",
            "id": f"fc_{call.id}",
            "call_id": call.id,
            "name": call.tool,
            "arguments": call.arguments,
            "status": "completed",
        }
        for call in reply.calls
    ]


def _response(reply: Reply, request: Mapping[str, Any], items: list[Body], status: str) -> Body:
    usage: Body = {"input_tokens": 120, "output_tokens": 20, "total_tokens": 140}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": CREATED,
        "model": request.get("model", MODEL),
        "status": status,
        "output": items,
        "usage": usage if status == "completed" else None,
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": "auto",
        "tools": request.get("tools") or [],
    }


def responses_stream(reply: Reply, request: Mapping[str, Any]) -> Iterator[Body]:
    """Yield the events of a response."""
    for number, event in enumerate(_response_events(reply, request)):
        yield {**event, "sequence_number": number}


def _response_events(reply: Reply, request: Mapping[str, Any]) -> Iterator[Body]:
    begun = _response(reply, request, [], "in_progress")
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(_items(reply)):
        at: Body = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            text, content = item["content"][0]["text"], {**at, "content_index": 0}
            empty = {"type": "output_text", "text": "", "annotations": []}
            added = {**item, "content": [], "status": "in_progress"}
            yield {"type": "response.output_item.added", "output_index": index, "item": added}
            yield {"type": "response.content_part.added", **content, "part": empty}
            for part in thirds(text):
                yield {"type": "response.output_text.delta", **content, "delta": part, "logprobs": []}
            yield {"type": "response.output_text.done", **content, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **content, "part": item["content"][0]}
        else:
            added = {**item, "arguments": "", "status": "in_progress"}
            yield {"type": "response.output_item.added", "output_index": index, "item": added}
            for part in thirds(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": part}
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield {"type": "response.function_call_arguments.done", **at, **done}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": responses(reply, request)}


# Anthropic, messages


def messages(reply: Reply, request: Mapping[str, Any]) -> Body:
    """Return a message."""
    return {**_message_head(reply, request), "content": _blocks(reply), "stop_reason": _stop_reason(reply)}


def _blocks(reply: Reply) -> list[Body]:
    if not reply.calls:
        return [{"type": "text", "text": reply.text}]
    return [
        {"type": "tool_use", "id": call.id, "name": call.tool, "input": dict(call.args)}
        for call in reply.calls
    ]


def _stop_reason(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _message_head(reply: Reply, request: Mapping[str, Any]) -> Body:
    head: Body = {"id": f"msg_{reply.id}", "type": "message", "role": "assistant"}
    head |= {"model": request.get("model", MODEL), "stop_sequence": None}
    return {**head, "usage": {"input_tokens": 120, "output_tokens": 20}}


def messages_stream(reply: Reply, request: Mapping[str, Any]) -> Iterator[Body]:
    """Yield the events of a message."""
    begun = {**_message_head(reply, request), "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(_blocks(reply)):
        if block["type"] == "text":
            empty: Body = {"type": "text", "text": ""}
            deltas: list[Body] = [{"type": "text_delta", "text": part} for part in thirds(block["text"])]
        else:
            empty = {**block, "input": {}}
            arguments = thirds(reply.calls[index].arguments)
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in arguments]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}
