"""An assistant of AutoGen, with OpenInference."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, in_words, lookup_policy, play_async, provider
from openinference.instrumentation import using_session
from openinference.instrumentation.autogen_agentchat import AutogenAgentChatInstrumentor

TRACES = provider()
AutogenAgentChatInstrumentor().instrument(tracer_provider=TRACES)
CHAT = OpenAIChatCompletionClient(model=MODEL, base_url=OPENAI_URL, api_key="none")


def agent(name, instructions, tools):
    """Return a new agent."""
    return AssistantAgent(
        name, CHAT, tools=tools, system_message=instructions, max_tool_iterations=8, model_client_stream=False
    )


async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    done = await agent("policy", POLICY, [in_words(lookup_policy)]).run(task=question)
    return done.messages[-1].content


AGENTS = {}


async def take(session, turn):
    """Play one turn."""
    tools = [*map(in_words, DESK_TOOLS), ask_policy_agent]
    desk = AGENTS.setdefault(session, agent("desk", DESK, tools))
    with using_session(session):
        if turn.get("stream"):
            async for _ in desk.run_stream(task=turn["user"]):
                pass
        else:
            await desk.run(task=turn["user"])


asyncio.run(play_async(take))
TRACES.shutdown()
