"""An agent of Pydantic AI with its own instrumentation, of the version that INSTRUMENTATION names."""

import asyncio
import os

from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, ToolFailed, lookup_policy, play_async, provider
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

TRACES = provider()
SETTINGS = InstrumentationSettings(
    tracer_provider=TRACES, include_content=True, version=int(os.environ["INSTRUMENTATION"])
)
Agent.instrument_all(SETTINGS)
CHAT = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=OPENAI_URL, api_key="none"))
policy = Agent(CHAT, instructions=POLICY, name="policy", tools=[lookup_policy])


def retried(function):
    """Return a tool that asks the model to try again where it fails."""
    from functools import wraps

    @wraps(function)
    def tool(**args):
        try:
            return function(**args)
        except ToolFailed as error:
            raise ModelRetry(f"Error: {error}") from error

    return tool


async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    return (await policy.run(question)).output


desk = Agent(CHAT, instructions=DESK, name="desk", tools=[*map(retried, DESK_TOOLS), ask_policy_agent])
HISTORY = {}


async def take(session, turn):
    """Play one turn."""
    options = {"message_history": HISTORY.get(session), "conversation_id": session}
    if turn.get("stream"):
        async with desk.run_stream(turn["user"], **options) as done:
            await done.get_output()
    else:
        done = await desk.run(turn["user"], **options)
    HISTORY[session] = done.all_messages()


asyncio.run(play_async(take))
TRACES.shutdown()
