"""The openai SDK as Langfuse's drop-in, in functions that Langfuse observes."""

import json
import os

from desk import DESK, MODEL, OPENAI_URL, OTLP_URL, POLICY, openai_tools, play, said, use

os.environ |= {"LANGFUSE_PUBLIC_KEY": "pk-lf-none", "LANGFUSE_SECRET_KEY": "sk-lf-none"}
os.environ |= {"LANGFUSE_HOST": OTLP_URL, "LANGFUSE_BASE_URL": OTLP_URL}

from langfuse import get_client, observe, propagate_attributes
from langfuse.openai import OpenAI

CLIENT = OpenAI(base_url=OPENAI_URL, api_key="none")
HISTORY = {}


def ask_model(messages, agent, stream):
    """Ask the model once: its message as a dict."""
    asked = {"model": MODEL, "messages": messages, "tools": openai_tools(agent)}
    if not stream:
        return CLIENT.chat.completions.create(**asked).choices[0].message.model_dump(exclude_none=True)
    text, calls = "", {}
    for chunk in CLIENT.chat.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                empty = {"type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(part.index, empty)
                call["id"] = part.id or call["id"]
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
    calls = {"tool_calls": list(calls.values())} if calls else {"content": text}
    return {"role": "assistant", **calls}


def answer(messages, agent, stream=False):
    """Let an agent answer: it calls tools until it speaks."""
    while True:
        message = ask_model(messages, agent, stream)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            name, args = call["function"]["name"], json.loads(call["function"]["arguments"])
            try:
                content = said(observe(name=name, as_type="tool")(tool(name))(**args))
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


@observe(name="desk", as_type="agent")
def observed(text, session, stream):
    """Answer a customer."""
    messages = HISTORY.setdefault(session, [{"role": "system", "content": DESK}])
    messages.append({"role": "user", "content": text})
    return answer(messages, "desk", stream)


def take(session, turn):
    """Play one turn."""
    with propagate_attributes(session_id=session):
        observed(turn["user"], session, turn.get("stream", False))


play(take)
get_client().shutdown()
