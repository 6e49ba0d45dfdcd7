"""The span attributes of four conventions.

The names are separate from those that the product reads, so that a mistake in either shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tracline.examples.desk.script import ScriptCall, ScriptLine
from tracline.schemas.span import Value
from tracline.schemas.span_content import Role

from .span_plan import Dialect, Manner

Attributes = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Conversing:
    """The input and output of a model call or an agent's turn, or its `error`."""

    agent: str
    model: str
    instructions: str
    inputs: Sequence[ScriptLine]
    output: ScriptLine | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """The call and result of a tool, or its error."""

    call: ScriptCall
    result: str | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class DialectWriter:
    """The names and attributes of a dialect's spans for model calls, tool runs and agents' turns.

    `session_key` and `agent_key` are the attributes that name the session and agent on any span; `scope` is
    the instrumentation scope. `agent_model` and `run_ids` state whether spans of agents have the model and
    spans of tools the id of the call.
    """

    chat: Callable[[Conversing, Manner], tuple[str, Attributes]]
    tool: Callable[[Running, Manner], tuple[str, Attributes]]
    agent: Callable[[Conversing, Manner], tuple[str, Attributes]]
    session_key: str
    agent_key: str
    scope: str
    agent_model: bool = True
    run_ids: bool = True


def _call_id(call: ScriptCall | None, manner: Manner) -> str | None:
    return call.call_id if call is not None and manner.call_ids else None


def _present(**found: Value) -> dict[str, Value]:
    """Return the fields that have a value."""
    return {name: value for name, value in found.items() if value is not None}


def _value(text: str) -> Value:
    """Return the value of JSON text, or other text unchanged."""
    try:
        return cast("Value", json.loads(text))
    except ValueError:
        return text


# OpenTelemetry GenAI


def _genai_chat(turn: Conversing, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "lumen",
        "gen_ai.request.model": turn.model,
    }
    if turn.error is not None:
        attributes["error.type"] = turn.error
    return f"chat {turn.model}", attributes | _genai_messages(turn, manner)


def _genai_messages(turn: Conversing, manner: Manner) -> Attributes:
    if not manner.captured:
        return {}
    messages: Attributes = {}
    if manner.inputs_captured:
        messages["gen_ai.system_instructions"] = [{"type": "text", "content": turn.instructions}]
        messages["gen_ai.input.messages"] = [genai_message(line, manner) for line in turn.inputs]
    if turn.output is not None:
        reason = "tool_call" if turn.output.calls else "stop"
        messages["gen_ai.output.messages"] = [{**genai_message(turn.output, manner), "finish_reason": reason}]
    return messages if manner.structured else {name: json.dumps(value) for name, value in messages.items()}


def genai_message(line: ScriptLine, manner: Manner) -> dict[str, Value]:
    """Return a message in the format of the GenAI conventions (`gen_ai.input.messages`)."""
    if line.role is Role.TOOL:
        response = _present(type="tool_call_response", id=_call_id(line.answers, manner), response=line.text)
        return {"role": "tool", "parts": [response]}
    parts: list[Value] = [] if line.text is None else [{"type": "text", "content": line.text}]
    for call in line.calls:
        asked = _present(
            type="tool_call", id=_call_id(call, manner), name=call.tool, arguments=_value(call.args)
        )
        parts.append(asked)
    return {"role": line.role.value, "parts": parts}


def _genai_tool(run: Running, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": run.call.tool,
        "gen_ai.tool.type": "function",
    }
    call_id = _call_id(run.call, manner)
    if call_id is not None:
        attributes["gen_ai.tool.call.id"] = call_id
    if run.error is not None:
        attributes["error.type"] = run.error
    if manner.captured:
        attributes["gen_ai.tool.call.arguments"] = (
            _value(run.call.args) if manner.structured else run.call.args
        )
        attributes["gen_ai.tool.call.result"] = run.result
    return f"execute_tool {run.call.tool}", attributes


def _genai_agent(turn: Conversing, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "lumen",
        "gen_ai.agent.name": turn.agent,
        "gen_ai.request.model": turn.model,
    }
    if turn.error is not None:
        attributes["error.type"] = turn.error
    messages = _genai_messages(turn, manner) if manner.agent_messages else {}
    return f"invoke_agent {turn.agent}", attributes | messages


# OpenInference


def _openinference_chat(turn: Conversing, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {"openinference.span.kind": "LLM", "llm.model_name": turn.model}
    if manner.captured:
        system = {"message.role": "system", "message.content": turn.instructions}
        inputs = [system, *(_openinference_message(line, manner) for line in turn.inputs)]
        attributes |= (
            _flat("llm.input_messages", inputs) if manner.inputs_captured else {"input.value": "__REDACTED__"}
        )
        if turn.output is not None:
            attributes |= _flat("llm.output_messages", [_openinference_message(turn.output, manner)])
    return "ChatCompletion", attributes


def _openinference_message(line: ScriptLine, manner: Manner) -> Attributes:
    message: Attributes = {"message.role": line.role.value}
    if line.text is not None:
        message["message.content"] = line.text
    if line.answers is not None:
        message["message.name"] = line.answers.tool
        message |= _present(**{"message.tool_call_id": _call_id(line.answers, manner)})
    calls = [
        _present(
            **{
                "tool_call.id": _call_id(call, manner),
                "tool_call.function.name": call.tool,
                "tool_call.function.arguments": call.args,
            }
        )
        for call in line.calls
    ]
    return message | _flat("message.tool_calls", calls)


def _flat(prefix: str, objects: Sequence[Mapping[str, Value]]) -> Attributes:
    """Return a list of objects as attributes `prefix.index.name`."""
    return {f"{prefix}.{i}.{name}": value for i, item in enumerate(objects) for name, value in item.items()}


def _openinference_tool(run: Running, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {"openinference.span.kind": "TOOL", "tool.name": run.call.tool}
    call_id = _call_id(run.call, manner)
    if call_id is not None:
        attributes["tool.id"] = call_id
    if manner.captured:
        attributes |= {"input.value": run.call.args, "input.mime_type": "application/json"}
        attributes |= {"output.value": run.result, "output.mime_type": "text/plain"}
    return run.call.tool, attributes


def _openinference_agent(turn: Conversing, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {"openinference.span.kind": "AGENT", "agent.name": turn.agent}
    if manner.agent_messages and manner.captured and manner.inputs_captured:
        asked = [line.text for line in turn.inputs if line.role is Role.USER]
        attributes |= _present(**{"input.value": asked[-1] if asked else None})
        attributes |= _present(**{"output.value": turn.output.text if turn.output else None})
    return turn.agent, attributes


# OpenLLMetry


def _openllmetry_chat(turn: Conversing, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {
        "llm.request.type": "chat",
        "gen_ai.system": "lumen",
        "gen_ai.request.model": turn.model,
    }
    if manner.captured:
        system = {"role": "system", "content": turn.instructions}
        inputs = [system, *(_openllmetry_message(line, manner) for line in turn.inputs)]
        attributes |= _flat("gen_ai.prompt", inputs if manner.inputs_captured else [])
        if turn.output is not None:
            reason = "tool_calls" if turn.output.calls else "stop"
            output = _openllmetry_message(turn.output, manner) | {"finish_reason": reason}
            attributes |= _flat("gen_ai.completion", [output])
    return "lumen.chat", attributes


def _openllmetry_message(line: ScriptLine, manner: Manner) -> Attributes:
    calls = [_present(id=_call_id(call, manner), name=call.tool, arguments=call.args) for call in line.calls]
    message = _present(role=line.role.value, content=line.text, tool_call_id=_call_id(line.answers, manner))
    return message | _flat("tool_calls", calls)


def _openllmetry_tool(run: Running, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {"traceloop.span.kind": "tool", "traceloop.entity.name": run.call.tool}
    if manner.captured:
        attributes["traceloop.entity.input"] = json.dumps({"args": [], "kwargs": _value(run.call.args)})
        attributes["traceloop.entity.output"] = json.dumps(run.result)
    return f"{run.call.tool}.tool", attributes


def _openllmetry_agent(turn: Conversing, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {"traceloop.span.kind": "agent", "traceloop.entity.name": turn.agent}
    if manner.agent_messages and manner.captured and manner.inputs_captured:
        asked = [line.text for line in turn.inputs if line.role is Role.USER]
        attributes["traceloop.entity.input"] = json.dumps({"args": asked[-1:], "kwargs": {}})
        attributes["traceloop.entity.output"] = json.dumps(turn.output.text if turn.output else None)
    return f"{turn.agent}.agent", attributes


# Vercel AI SDK


def _vercel_chat(turn: Conversing, manner: Manner) -> tuple[str, Attributes]:
    attributes = _vercel_operation("ai.generateText.doGenerate", turn) | {
        "gen_ai.system": "lumen.chat",
        "gen_ai.request.model": turn.model,
    }
    if manner.captured:
        system: Value = {"role": "system", "content": turn.instructions}
        inputs: list[Value] = [system, *(_vercel_message(line, manner) for line in turn.inputs)]
        if manner.inputs_captured:
            attributes["ai.prompt.messages"] = json.dumps(inputs)
        attributes |= _vercel_response(turn.output, manner)
    return "ai.generateText.doGenerate", attributes


def _vercel_operation(operation: str, turn: Conversing) -> Attributes:
    return {
        "operation.name": f"{operation} {turn.agent}",
        "resource.name": turn.agent,
        "ai.operationId": operation,
        "ai.telemetry.functionId": turn.agent,
        "ai.model.provider": "lumen.chat",
        "ai.model.id": turn.model,
    }


def _vercel_message(line: ScriptLine, manner: Manner) -> dict[str, Value]:
    content: list[Value] = []
    if line.answers is not None:
        output: Value = {"type": "text", "value": line.text}
        call_id, tool = _call_id(line.answers, manner), line.answers.tool
        content.append(_present(type="tool-result", toolCallId=call_id, toolName=tool, output=output))
    elif line.text is not None:
        content.append({"type": "text", "text": line.text})
    for call in line.calls:
        call_id = _call_id(call, manner)
        asked = _present(type="tool-call", toolCallId=call_id, toolName=call.tool, input=_value(call.args))
        content.append(asked)
    return {"role": line.role.value, "content": content}


def _vercel_response(output: ScriptLine | None, manner: Manner) -> Attributes:
    if output is None:
        return {}
    response: Attributes = {"ai.response.finishReason": "tool-calls" if output.calls else "stop"}
    if output.text is not None:
        response["ai.response.text"] = output.text
    if output.calls:
        calls = [
            _present(toolCallId=_call_id(call, manner), toolName=call.tool, input=call.args)
            for call in output.calls
        ]
        response["ai.response.toolCalls"] = json.dumps(calls)
    return response


def _vercel_tool(run: Running, manner: Manner) -> tuple[str, Attributes]:
    attributes: Attributes = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": run.call.tool}
    attributes |= _present(**{"ai.toolCall.id": _call_id(run.call, manner)})
    if manner.captured:
        attributes["ai.toolCall.args"] = run.call.args
        attributes["ai.toolCall.result"] = json.dumps(run.result)
    return "ai.toolCall", attributes


def _vercel_agent(turn: Conversing, manner: Manner) -> tuple[str, Attributes]:
    attributes = _vercel_operation("ai.generateText", turn)
    if manner.captured:
        inputs = [_vercel_message(line, manner) for line in turn.inputs]
        if manner.inputs_captured:
            attributes["ai.prompt"] = json.dumps({"system": turn.instructions, "messages": inputs})
        attributes |= _vercel_response(turn.output, manner)
    return "ai.generateText", attributes


WORDS: Mapping[Dialect, DialectWriter] = {
    Dialect.GENAI: DialectWriter(
        _genai_chat,
        _genai_tool,
        _genai_agent,
        session_key="gen_ai.conversation.id",
        agent_key="gen_ai.agent.name",
        scope="opentelemetry.instrumentation.lumen",
    ),
    Dialect.OPENINFERENCE: DialectWriter(
        _openinference_chat,
        _openinference_tool,
        _openinference_agent,
        session_key="session.id",
        agent_key="agent.name",
        scope="openinference.instrumentation.lumen",
        agent_model=False,
    ),
    Dialect.OPENLLMETRY: DialectWriter(
        _openllmetry_chat,
        _openllmetry_tool,
        _openllmetry_agent,
        session_key="traceloop.association.properties.session_id",
        agent_key="gen_ai.agent.name",
        scope="opentelemetry.instrumentation.lumen.v1",
        agent_model=False,
        run_ids=False,
    ),
    Dialect.VERCEL: DialectWriter(
        _vercel_chat,
        _vercel_tool,
        _vercel_agent,
        session_key="ai.telemetry.metadata.sessionId",
        agent_key="ai.telemetry.functionId",
        scope="ai",
    ),
}
"""The writer of each dialect."""
