"""An agent of Microsoft's Agent Framework with its own instrumentation."""

import asyncio

from agent_framework import Agent
from agent_framework.observability import enable_instrumentation
from agent_framework.openai import OpenAIChatCompletionClient
from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, lookup_policy, play_async, provider

TRACES = provider()
enable_instrumentation(enable_sensitive_data=True)
TRACER = TRACES.get_tracer("app")


def agent(name, instructions, tools):
    """Return a new agent."""
    chat = OpenAIChatCompletionClient(model=MODEL, base_url=OPENAI_URL, api_key="none")
    return Agent(client=chat, instructions=instructions, name=name, tools=tools)


async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    return (await agent("policy", POLICY, [lookup_policy]).run(question)).text


AGENTS = {}


async def take(session, turn):
    """Play one turn."""
    if session not in AGENTS:
        desk = agent("desk", DESK, [*DESK_TOOLS, ask_policy_agent])
        AGENTS[session] = desk, desk.create_session(session_id=session)
    desk, state = AGENTS[session]
    with TRACER.start_as_current_span("turn", attributes={"gen_ai.conversation.id": session}):
        if turn.get("stream"):
            async for _ in desk.run(turn["user"], session=state, stream=True):
                pass
        else:
            await desk.run(turn["user"], session=state)


asyncio.run(play_async(take))
TRACES.shutdown()
