"""An agent of Google's ADK with LiteLLM's models, instrumented by itself or by VARIANT."""

import asyncio
import logging
import os

from desk import (
    DESK,
    DESK_TOOLS,
    MODEL,
    OPENAI_URL,
    POLICY,
    log_provider,
    lookup_policy,
    play_async,
    provider,
)

TRACES, LOGS = provider(), log_provider()
if os.environ.get("VARIANT") == "openinference":
    from openinference.instrumentation.google_adk import GoogleADKInstrumentor

    GoogleADKInstrumentor().instrument(tracer_provider=TRACES)

from google.adk.agents import LlmAgent, RunConfig  # noqa: E402
from google.adk.agents.run_config import StreamingMode  # noqa: E402
from google.adk.models.lite_llm import LiteLlm  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions import InMemorySessionService  # noqa: E402
from google.genai.types import Content, Part  # noqa: E402

logging.getLogger("google_adk").setLevel(logging.ERROR)
APP, USER = "shop", "customer"


def runner(name, instructions, tools):
    """Return a runner of a new agent."""
    chat = LiteLlm(model=f"openai/{MODEL}", api_base=OPENAI_URL, api_key="none", max_retries=2)
    agent = LlmAgent(
        name=name, model=chat, instruction=instructions, tools=tools, on_tool_error_callback=in_words
    )
    return Runner(agent=agent, app_name=APP, session_service=InMemorySessionService())


def in_words(error, **_):
    """Return what the model reads of a tool that failed."""
    return {"result": f"Error: {error}"}


async def answer_to(runner, session, text, stream=False):
    """Let an agent answer: its words."""
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    message = Content(role="user", parts=[Part(text=text)])
    words = ""
    async for event in runner.run_async(
        user_id=USER, session_id=session, new_message=message, run_config=config
    ):
        if event.is_final_response() and event.content:
            words = "".join(part.text or "" for part in event.content.parts)
    return words


async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    policy = runner("policy", POLICY, [lookup_policy])
    session = await policy.session_service.create_session(app_name=APP, user_id=USER)
    return await answer_to(policy, session.id, question)


desk = runner("desk", DESK, [*DESK_TOOLS, ask_policy_agent])


async def take(session, turn):
    """Play one turn."""
    found = await desk.session_service.get_session(app_name=APP, user_id=USER, session_id=session)
    if found is None:
        await desk.session_service.create_session(app_name=APP, user_id=USER, session_id=session)
    await answer_to(desk, session, turn["user"], turn.get("stream", False))


asyncio.run(play_async(take))
TRACES.shutdown()
LOGS.shutdown()
