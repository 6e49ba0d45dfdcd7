"""Strands Agents with their own instrumentation."""

import asyncio

from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, in_words, lookup_policy, play_async, provider
from strands import Agent, tool
from strands.models.openai import OpenAIModel

TRACES = provider()


def agent(name, instructions, tools, **more):
    """Return a new agent."""
    chat = OpenAIModel(client_args={"base_url": OPENAI_URL, "api_key": "none"}, model_id=MODEL)
    return Agent(
        model=chat, system_prompt=instructions, tools=tools, name=name, callback_handler=None, **more
    )


@tool
async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    return str(await agent("policy", POLICY, [tool(in_words(lookup_policy))]).invoke_async(question)).strip()


TOOLS = [*(tool(in_words(function)) for function in DESK_TOOLS), ask_policy_agent]
AGENTS = {}


async def take(session, turn):
    """Play one turn."""
    names = {"session.id": session}
    desk = AGENTS.setdefault(session, agent("desk", DESK, TOOLS, trace_attributes=names))
    await desk.invoke_async(turn["user"])


asyncio.run(play_async(take))
TRACES.shutdown()
