"""LiteLLM's `completion` with a loop of our own, and its `otel` callback."""

import json
import os

from desk import DESK, MODEL, OPENAI_URL, OTLP_URL, POLICY, openai_tools, play, said, use

os.environ |= {"OTEL_EXPORTER": "otlp_http", "OTEL_ENDPOINT": f"{OTLP_URL}/v1/traces"}
os.environ |= {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT": OTLP_URL}

import litellm

litellm.callbacks = ["otel"]
HISTORY = {}


def answer(messages, agent, session):
    """Let an agent answer: it calls tools until it speaks."""
    while True:
        done = litellm.completion(
            model=f"openai/{MODEL}",
            api_base=OPENAI_URL,
            api_key="none",
            messages=messages,
            tools=openai_tools(agent),
            num_retries=2,
            metadata={"session_id": session},
        )
        message = done.choices[0].message.model_dump(exclude_none=True)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            name, args = call["function"]["name"], json.loads(call["function"]["arguments"])
            content = run_tool(name, args, session)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


def run_tool(name, args, session):
    """Run a tool: what the model is given, the error's text where it fails."""
    try:
        if name == "ask_policy_agent":
            question = {"role": "user", "content": args["question"]}
            return answer([{"role": "system", "content": POLICY}, question], "policy", session)
        return said(use(name, **args))
    except Exception as error:
        return f"Error: {error}"


def take(session, turn):
    """Play one turn."""
    messages = HISTORY.setdefault(session, [{"role": "system", "content": DESK}])
    messages.append({"role": "user", "content": turn["user"]})
    answer(messages, "desk", session)


play(take)
from opentelemetry import trace  # noqa: E402

for made in (trace.get_tracer_provider(), getattr(litellm, "open_telemetry_logger", None)):
    getattr(made, "force_flush", lambda: None)()
