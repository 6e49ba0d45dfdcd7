"""The openai SDK with MLflow's tracing, exported over OTLP."""

import json
import os

from desk import DESK, MODEL, OPENAI_URL, OTLP_URL, POLICY, openai_tools, play, said, use

os.environ |= {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{OTLP_URL}/v1/traces"}
os.environ |= {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}

import mlflow
import mlflow.openai
from mlflow.entities import SpanType
from openai import OpenAI

mlflow.openai.autolog()
CLIENT = OpenAI(base_url=OPENAI_URL, api_key="none")
HISTORY = {}


def answer(messages, agent):
    """Let an agent answer: it calls tools until it speaks."""
    while True:
        done = CLIENT.chat.completions.create(model=MODEL, messages=messages, tools=openai_tools(agent))
        message = done.choices[0].message.model_dump(exclude_none=True)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            name, args = call["function"]["name"], json.loads(call["function"]["arguments"])
            try:
                content = said(mlflow.trace(tool(name), name=name, span_type=SpanType.TOOL)(**args))
            except Exception as error:
                content = f"Error: {error}"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


def tool(name):
    """Return a tool as a function."""

    def run(**args):
        if name == "ask_policy_agent":
            question = {"role": "user", "content": args["question"]}
            return answer([{"role": "system", "content": POLICY}, question], "policy")
        return use(name, **args)

    return run


@mlflow.trace(name="desk", span_type=SpanType.AGENT)
def traced(text, session):
    """Answer a customer."""
    mlflow.update_current_trace(metadata={"mlflow.trace.session": session})
    messages = HISTORY.setdefault(session, [{"role": "system", "content": DESK}])
    messages.append({"role": "user", "content": text})
    return answer(messages, "desk")


def take(session, turn):
    """Play one turn."""
    traced(turn["user"], session)


play(take)
mlflow.flush_trace_async_logging()
