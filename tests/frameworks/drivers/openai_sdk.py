"""The openai SDK with a loop of our own over chat completions or responses, instrumented by VARIANT."""

import json
import os
from contextlib import contextmanager

from desk import (
    DESK,
    MODEL,
    MODEL_URL,
    POLICY,
    ChatLoop,
    in_text,
    log_provider,
    openai_tools,
    play,
    provider,
    text_of_result,
    use,
)

VARIANT = os.environ["VARIANT"]
API = os.environ.get("API", "chat")


def instrumented():
    """Switch the instrumentation on: what stands around a turn, and around a tool."""
    if VARIANT == "openinference":
        return openinference()
    if VARIANT == "openllmetry":
        return openllmetry()
    return opentelemetry()


def openinference():
    """OpenInference: `using_session` around a turn, the tracer's `tool` around a tool."""
    from openinference.instrumentation import OITracer, TraceConfig, using_session
    from openinference.instrumentation.openai import OpenAIInstrumentor

    traces = provider()
    OpenAIInstrumentor().instrument(tracer_provider=traces)
    tracer = OITracer(traces.get_tracer("app"), TraceConfig())

    @contextmanager
    def turn(session):
        with using_session(session), tracer.start_as_current_span("turn", openinference_span_kind="chain"):
            yield

    def tool(call_id, name, args, run):
        with tracer.start_as_current_span(name, openinference_span_kind="tool") as span:
            span.set_tool(name=name, parameters=args)
            span.set_attribute("tool_call.id", call_id)
            span.set_input(args)
            result = run()
            span.set_output(result)
            return result

    return turn, tool, traces.shutdown


def openllmetry():
    """OpenLLMetry's instrumentation; spans of ours carry what the decorators of its SDK write."""
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    traces = provider()
    OpenAIInstrumentor().instrument(tracer_provider=traces)
    tracer = traces.get_tracer("traceloop.tracer")
    session_attribute = "traceloop.association.properties.session_id"

    @contextmanager
    def turn(session):
        names = {
            session_attribute: session,
            "traceloop.span.kind": "workflow",
            "traceloop.entity.name": "turn",
        }
        with tracer.start_as_current_span("turn.workflow", attributes=names):
            yield

    def tool(_, name, args, run):
        names = {"traceloop.span.kind": "tool", "traceloop.entity.name": name}
        names["traceloop.entity.input"] = json.dumps({"args": [], "kwargs": args}, ensure_ascii=False)
        with tracer.start_as_current_span(f"{name}.tool", attributes=names) as span:
            result = run()
            span.set_attribute("traceloop.entity.output", json.dumps(result, ensure_ascii=False))
            return result

    return turn, tool, traces.shutdown


def opentelemetry():
    """OpenTelemetry's own instrumentation: a span of ours with the conversation's id, execute_tool spans."""
    from opentelemetry import trace
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

    traces, logs = provider(), log_provider()
    OpenAIInstrumentor().instrument()
    tracer = trace.get_tracer("app")

    @contextmanager
    def turn(session):
        names = {"gen_ai.conversation.id": session, "gen_ai.operation.name": "invoke_agent"}
        with tracer.start_as_current_span("turn", attributes=names):
            yield

    def tool(call_id, name, args, run):
        names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        names |= {"gen_ai.tool.call.id": call_id, "gen_ai.tool.call.arguments": json.dumps(args)}
        with tracer.start_as_current_span(f"execute_tool {name}", attributes=names) as span:
            result = run()
            span.set_attribute("gen_ai.tool.call.result", text_of_result(result))
            return result

    def close():
        traces.shutdown()
        logs.shutdown()

    return turn, tool, close


TURN, TOOL, CLOSE = instrumented()

# After the instrumentation, as their documentation asks for.
from openai import OpenAI  # noqa: E402

CLIENT = OpenAI(base_url=f"{MODEL_URL}/v1", api_key="none")


def response(items, agent, stream=False):
    """Let an agent answer by way of the responses API: its words."""
    tools = [{"type": "function", **tool["function"]} for tool in openai_tools(agent)]
    instructions = DESK if agent == "desk" else POLICY
    while True:
        asked = {"model": MODEL, "instructions": instructions, "input": items, "tools": tools}
        if stream:
            with CLIENT.responses.create(**asked, stream=True) as events:
                done = next(event.response for event in events if event.type == "response.completed")
        else:
            done = CLIENT.responses.create(**asked)
        items += [item.model_dump(exclude_none=True) for item in done.output]
        calls = [item for item in done.output if item.type == "function_call"]
        if not calls:
            return done.output_text
        for call in calls:
            content = result_of(call.call_id, call.name, json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": content})


def result_of(call_id, name, args):
    """Run a tool in its span: what the model reads of it."""

    def run():
        if name != "ask_policy_agent":
            return use(name, **args)
        return response([{"role": "user", "content": args["question"]}], "policy")

    return in_text(lambda: TOOL(call_id, name, args, run))


CHAT = ChatLoop(CLIENT.chat.completions.create, TOOL)
HISTORY = {}


def take(session, turn):
    """Play one turn."""
    with TURN(session):
        if API != "responses":
            CHAT.take(session, turn)
            return
        items = HISTORY.setdefault(session, [])
        items.append({"role": "user", "content": turn["user"]})
        response(items, "desk", turn.get("stream", False))


play(take)
CLOSE()
