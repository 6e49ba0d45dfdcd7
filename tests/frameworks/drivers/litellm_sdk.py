"""LiteLLM's SDK with a loop of our own, instrumented by VARIANT."""

import json
import os
from contextlib import contextmanager

from desk import OPENAI_URL, ChatLoop, play, provider, text_of_result

TRACES = provider()
VARIANT = os.environ["VARIANT"]

import litellm  # noqa: E402
from opentelemetry import trace  # noqa: E402


def openinference():
    """Switch OpenInference on: what stands around a turn and around a tool."""
    from openinference.instrumentation import OITracer, TraceConfig, using_session
    from openinference.instrumentation.litellm import LiteLLMInstrumentor

    LiteLLMInstrumentor().instrument(tracer_provider=TRACES)
    tracer = OITracer(TRACES.get_tracer("app"), TraceConfig())

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

    return turn, tool


def plain():
    """Switch LiteLLM's own callback on: a span of ours with the conversation's id, execute_tool spans."""
    litellm.callbacks = ["otel"]
    tracer = TRACES.get_tracer("app")

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

    return turn, tool


TURN, TOOL = openinference() if VARIANT == "openinference" else plain()


def create(model, **asked):
    """Ask the model by way of LiteLLM, whose callback looks for the span around a stream there alone."""
    names = {"litellm_parent_otel_span": trace.get_current_span()} if VARIANT == "otel" else {}
    way = {"api_base": OPENAI_URL, "api_key": "none", "max_retries": 2, "metadata": names}
    return litellm.completion(f"openai/{model}", **way, **asked)


CHAT = ChatLoop(create, TOOL)


def take(session, turn):
    """Play one turn."""
    with TURN(session):
        CHAT.take(session, turn)


play(take)
TRACES.shutdown()
