"""OpenAI's Agents SDK over chat completions or responses, instrumented by VARIANT."""

import asyncio
import os

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_trace_processors,
    trace,
)
from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, lookup_policy, play_async, provider
from openai import AsyncOpenAI

VARIANT = os.environ["VARIANT"]
set_trace_processors([])
TRACES = provider()
if VARIANT == "openinference":
    from openinference.instrumentation import using_session
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument(tracer_provider=TRACES)
else:
    from contextlib import nullcontext as using_session

    from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument(tracer_provider=TRACES)

CLIENT = AsyncOpenAI(base_url=OPENAI_URL, api_key="none")
KIND = OpenAIResponsesModel if os.environ.get("API") == "responses" else OpenAIChatCompletionsModel
MODEL_OF_AGENTS = KIND(model=MODEL, openai_client=CLIENT)

policy = Agent(
    name="policy", instructions=POLICY, model=MODEL_OF_AGENTS, tools=[function_tool(lookup_policy)]
)


@function_tool
async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    return (await Runner.run(policy, question)).final_output


desk = Agent(
    name="desk",
    instructions=DESK,
    model=MODEL_OF_AGENTS,
    tools=[*map(function_tool, DESK_TOOLS), ask_policy_agent],
)
HISTORY = {}


async def take(session, turn):
    """Play one turn."""
    items = [*HISTORY.get(session, []), {"role": "user", "content": turn["user"]}]
    with using_session(session), trace("desk", group_id=session):
        if turn.get("stream"):
            done = Runner.run_streamed(desk, items)
            async for _ in done.stream_events():
                pass
        else:
            done = await Runner.run(desk, items)
    HISTORY[session] = done.to_input_list()


asyncio.run(play_async(take))
TRACES.shutdown()
