"""An agent of Google's ADK with its own instrumentation, over LiteLLM or Gemini as API says."""

import asyncio
import os

from desk import (
    DESK,
    DESK_TOOLS,
    MODEL,
    MODEL_URL,
    OPENAI_URL,
    POLICY,
    log_provider,
    lookup_policy,
    play_async,
    provider,
)

TRACES, LOGS = provider(), log_provider()

from google.adk.agents import Agent  # noqa: E402
from google.adk.models.google_llm import Gemini  # noqa: E402
from google.adk.runners import InMemoryRunner  # noqa: E402
from google.genai import types  # noqa: E402


def chat():
    """Return the model."""
    if os.environ["API"] == "litellm":
        from google.adk.models.lite_llm import LiteLlm

        return LiteLlm(model=f"openai/{MODEL}", api_base=OPENAI_URL, api_key="none", num_retries=2)
    os.environ["GOOGLE_API_KEY"] = "none"
    options = types.HttpRetryOptions(initial_delay=0.1, attempts=3)
    return Gemini(model="gemini-2.5-flash", base_url=MODEL_URL, retry_options=options)


def caught(error, **_):
    """Give the model the error's text where a tool fails."""
    return {"error": f"Error: {error}"}


async def ask(runner, session, text, stream=False):
    """Say something to an agent: what it answers."""
    from google.adk.agents.run_config import RunConfig, StreamingMode

    message = types.Content(role="user", parts=[types.Part(text=text)])
    answer = ""
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    events = runner.run_async(user_id="someone", session_id=session, new_message=message, run_config=config)
    async for event in events:
        if event.is_final_response() and event.content:
            answer = "".join(part.text or "" for part in event.content.parts)
    return answer


policy = InMemoryRunner(
    Agent(name="policy", model=chat(), instruction=POLICY, tools=[lookup_policy]), app_name="policy"
)


async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    session = await policy.session_service.create_session(app_name="policy", user_id="someone")
    return await ask(policy, session.id, question)


desk = InMemoryRunner(
    Agent(
        name="desk",
        model=chat(),
        instruction=DESK,
        tools=[*DESK_TOOLS, ask_policy_agent],
        on_tool_error_callback=caught,
    ),
    app_name="desk",
)
BEGUN = set()


async def take(session, turn):
    """Play one turn."""
    if session not in BEGUN:
        BEGUN.add(session)
        await desk.session_service.create_session(app_name="desk", user_id="someone", session_id=session)
    await ask(desk, session, turn["user"], turn.get("stream", False))


asyncio.run(play_async(take))
TRACES.shutdown()
LOGS.shutdown()
