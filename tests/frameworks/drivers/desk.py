"""The shared part of the drivers in Python: the script's users and tools, and interleaved turns of sessions.

The harness sets: MODEL_URL (the scripted model), OTLP_URL (where spans go), SESSION_PREFIX, CONVERSATIONS.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

SCRIPT = json.loads(Path(os.environ["CONVERSATIONS"]).read_text())
MODEL_URL = os.environ["MODEL_URL"]
OPENAI_URL = f"{MODEL_URL}/v1"
OTLP_URL = os.environ["OTLP_URL"]
PREFIX = os.environ["SESSION_PREFIX"]
MODEL = "gpt-4o-mini"
DESK = SCRIPT["agents"]["desk"]
POLICY = SCRIPT["agents"]["policy"]
os.environ.setdefault("OPENAI_API_KEY", "none")
os.environ.setdefault("OPENAI_BASE_URL", OPENAI_URL)
os.environ.setdefault("ANTHROPIC_API_KEY", "none")
# LiteLLM fetches a list of prices otherwise.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

ASKED = Counter()


class ToolFailed(Exception):
    """A tool that fails."""


def _calls():
    for turns in SCRIPT["sessions"].values():
        for turn in turns:
            for step in turn["steps"]:
                for call in step.get("calls", ()):
                    yield call
                    for inner in call.get("asks", {"steps": ()})["steps"]:
                        yield from inner.get("calls", ())


def use(tool, **args):
    """Run a tool of the script: its result. Raises ToolFailed where the script has it fail."""
    found = [call for call in _calls() if call["tool"] == tool and call["args"] == args]
    key = (tool, json.dumps(args, sort_keys=True))
    call = found[min(ASKED[key], len(found) - 1)]
    ASKED[key] += 1
    if "raises" in call:
        raise ToolFailed(call["raises"])
    return call["result"]


def text_of_result(result):
    """Return a tool's result as a model reads it: text as it is, anything else as JSON."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def in_text(run):
    """Run a tool: what a model reads of it, its result as text, or the error's text where it fails."""
    try:
        return text_of_result(run())
    except ToolFailed as error:
        return f"Error: {error}"


def tools_of(agent):
    """Return the tools of an agent: name, description, parameters as JSON Schema."""
    made = []
    for name, tool in SCRIPT["tools"].items():
        if tool["agent"] == agent:
            fields = {field: {"type": kind} for field, kind in tool["parameters"].items()}
            schema = {"type": "object", "properties": fields, "required": list(fields)}
            made.append((name, tool["description"], schema))
    return made


def openai_tools(agent):
    """Return the tools of an agent as OpenAI's chat completions take them."""
    return [
        {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}
        for name, about, schema in tools_of(agent)
    ]


@dataclass(frozen=True)
class ChatLoop:
    """A loop of our own over chat completions: the model is asked and its tools are run until it speaks.

    `create` asks the model as the openai SDK's `chat.completions.create` does. `tool` gets the call's id, the
    tool's name, its arguments and a function without arguments that runs it, and returns the result.
    """

    create: Callable
    tool: Callable
    histories: dict = field(default_factory=dict)

    def take(self, session, turn):
        """Play one turn."""
        messages = self.histories.setdefault(session, [{"role": "system", "content": DESK}])
        messages.append({"role": "user", "content": turn["user"]})
        return self.answer(messages, "desk", turn.get("stream", False))

    def answer(self, messages, agent, stream=False):
        """Let an agent answer a conversation, which grows by what it does: its words."""
        while True:
            message = self.message(messages, agent, stream)
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                content = self.result(
                    call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])
                )
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    def message(self, messages, agent, stream):
        """Ask the model once: its message as a dict."""
        asked = {"model": MODEL, "messages": messages, "tools": openai_tools(agent)}
        if stream:
            return joined(self.create(**asked, stream=True))
        message = self.create(**asked).choices[0].message.model_dump(exclude_none=True)
        return {name: message[name] for name in ("role", "content", "tool_calls") if name in message}

    def result(self, call_id, name, args):
        """Run a tool: what the model reads of it."""
        return in_text(lambda: self.tool(call_id, name, args, lambda: self.run(name, args)))

    def run(self, name, args):
        """Run a tool of the script, or have the policy agent answer: the result."""
        if name != "ask_policy_agent":
            return use(name, **args)
        question = {"role": "user", "content": args["question"]}
        return self.answer([{"role": "system", "content": POLICY}, question], "policy")


def joined(chunks):
    """Return the message that the chunks of a chat completion come to."""
    text, calls = "", {}
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                empty = {"type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(part.index, empty)
                call["id"] = part.id or call["id"]
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
    if calls:
        return {"role": "assistant", "tool_calls": list(calls.values())}
    return {"role": "assistant", "content": text}


def rounds():
    """Yield rounds of turns: the first turn of every session, then the second: session id, turn."""
    sessions = SCRIPT["sessions"]
    for place in range(max(map(len, sessions.values()))):
        yield [(PREFIX + name, turns[place]) for name, turns in sessions.items() if place < len(turns)]


def play(take):
    """Play all sessions: `take(session id, turn)`, the turns of a round at the same time in threads."""
    with ThreadPoolExecutor(3) as pool:
        for batch in rounds():
            for done in [pool.submit(take, session, turn) for session, turn in batch]:
                done.result()


async def play_async(take):
    """Play all sessions: `take(session id, turn)` is awaited, the turns of a round at the same time."""
    for batch in rounds():
        await asyncio.gather(*(take(session, turn) for session, turn in batch))


def provider():
    """Return a tracer provider that exports to the harness, also set as the global one."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    made = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=f"{OTLP_URL}/v1/traces")
    made.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
    trace.set_tracer_provider(made)
    return made


def log_provider():
    """Return a provider of log records that exports to the harness, also set as the global one."""
    from opentelemetry import _logs
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    made = LoggerProvider()
    exporter = OTLPLogExporter(endpoint=f"{OTLP_URL}/v1/logs")
    made.add_log_record_processor(BatchLogRecordProcessor(exporter, schedule_delay_millis=500))
    _logs.set_logger_provider(made)
    return made


def find_user_id_by_email(email: str):
    """Find the customer's id by the e-mail address."""
    return use("find_user_id_by_email", email=email)


def get_order_details(order_id: str):
    """Read one order."""
    return use("get_order_details", order_id=order_id)


def issue_refund(order_id: str, amount: float):
    """Pay an amount of an order back to the customer."""
    return use("issue_refund", order_id=order_id, amount=amount)


def lookup_policy(topic: str):
    """Read one topic of the shop's policy."""
    return use("lookup_policy", topic=topic)


DESK_TOOLS = [find_user_id_by_email, get_order_details, issue_refund]


def in_words(function):
    """Return a tool that gives text, and the error's text where it fails, for frameworks that need it so."""
    from functools import wraps

    @wraps(function)
    def tool(**args):
        return in_text(lambda: function(**args))

    tool.__annotations__ = {**function.__annotations__, "return": str}
    return tool
