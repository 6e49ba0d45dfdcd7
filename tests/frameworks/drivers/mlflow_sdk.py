"""The openai SDK with MLflow's tracing, exported over OTLP."""

import os

from desk import OPENAI_URL, OTLP_URL, ChatLoop, play

os.environ |= {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{OTLP_URL}/v1/traces"}
os.environ |= {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}

import mlflow
import mlflow.openai
from mlflow.entities import SpanType
from openai import OpenAI

mlflow.openai.autolog()


def tool(_, name, args, run):
    """Run a tool in a function that MLflow traces."""

    @mlflow.trace(name=name, span_type=SpanType.TOOL)
    def traced(**args):  # noqa: ARG001
        return run()

    return traced(**args)


CHAT = ChatLoop(OpenAI(base_url=OPENAI_URL, api_key="none").chat.completions.create, tool)


@mlflow.trace(name="desk", span_type=SpanType.AGENT)
def desk(text, session, turn):  # noqa: ARG001
    """Answer a customer."""
    mlflow.update_current_trace(metadata={"mlflow.trace.session": session})
    return CHAT.take(session, turn)


def take(session, turn):
    """Play one turn, not streamed: MLflow then has calls in the chunks alone."""
    desk(turn["user"], session, turn | {"stream": False})


play(take)
mlflow.flush_trace_async_logging()
