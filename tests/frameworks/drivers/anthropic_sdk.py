"""The anthropic SDK with a loop of our own, instrumented by VARIANT."""

import os

from desk import DESK, MODEL_URL, POLICY, play, provider, text_of_result, tools_of, use

TRACES = provider()
if os.environ["VARIANT"] == "openinference":
    from openinference.instrumentation import using_session
    from openinference.instrumentation.anthropic import AnthropicInstrumentor
else:
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
AnthropicInstrumentor().instrument(tracer_provider=TRACES)

from anthropic import Anthropic  # noqa: E402

CLIENT = Anthropic(base_url=MODEL_URL, api_key="none")
TRACER = TRACES.get_tracer("app")
HISTORY = {}


def answer(messages, agent, stream=False):
    """Let an agent answer: it calls tools until it speaks."""
    tools = [
        {"name": name, "description": about, "input_schema": schema}
        for name, about, schema in tools_of(agent)
    ]
    while True:
        asked = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 1000,
            "system": DESK if agent == "desk" else POLICY,
            "messages": messages,
            "tools": tools,
        }
        if stream:
            with CLIENT.messages.stream(**asked) as events:
                done = events.get_final_message()
        else:
            done = CLIENT.messages.create(**asked)
        blocks = [block.model_dump(include={"type", "text", "id", "name", "input"}) for block in done.content]
        messages.append({"role": "assistant", "content": blocks})
        calls = [block for block in done.content if block.type == "tool_use"]
        if not calls:
            return done.content[0].text
        messages.append({"role": "user", "content": [result_of(call) for call in calls]})


def result_of(call):
    """Run a tool: its result as a block."""
    made = {"type": "tool_result", "tool_use_id": call.id}
    names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.name}
    names["gen_ai.tool.call.id"] = call.id
    try:
        with TRACER.start_as_current_span(f"execute_tool {call.name}", attributes=names):
            if call.name == "ask_policy_agent":
                question = {"role": "user", "content": call.input["question"]}
                return {**made, "content": answer([question], "policy")}
            return {**made, "content": text_of_result(use(call.name, **call.input))}
    except Exception as error:
        return {**made, "content": f"Error: {error}", "is_error": True}


def take(session, turn):
    """Play one turn."""
    messages = HISTORY.setdefault(session, [])
    messages.append({"role": "user", "content": turn["user"]})
    if os.environ["VARIANT"] == "openinference":
        with using_session(session), TRACER.start_as_current_span("turn"):
            answer(messages, "desk", turn.get("stream", False))
    else:
        with TRACER.start_as_current_span("turn", attributes={"gen_ai.conversation.id": session}):
            answer(messages, "desk", turn.get("stream", False))


play(take)
TRACES.shutdown()
