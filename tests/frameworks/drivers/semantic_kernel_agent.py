"""A chat completion agent of Semantic Kernel with its own instrumentation."""

import asyncio

from desk import (
    DESK,
    DESK_TOOLS,
    MODEL,
    OPENAI_URL,
    POLICY,
    in_words,
    log_provider,
    lookup_policy,
    play_async,
    provider,
)
from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function

TRACES, LOGS = provider(), log_provider()
import logging  # noqa: E402

from opentelemetry.sdk._logs import LoggingHandler  # noqa: E402

handler = LoggingHandler(logger_provider=LOGS)
handler.addFilter(logging.Filter("semantic_kernel"))
logging.getLogger().addHandler(handler)
logging.getLogger("semantic_kernel").setLevel(logging.INFO)
TRACER = TRACES.get_tracer("app")


def agent(name, instructions, tools):
    """Return a new agent."""
    client = AsyncOpenAI(base_url=OPENAI_URL, api_key="none")
    chat = OpenAIChatCompletion(ai_model_id=MODEL, async_client=client)
    functions = [
        kernel_function(function, name=function.__name__, description=function.__doc__) for function in tools
    ]
    from semantic_kernel.functions import KernelPlugin

    plugin = KernelPlugin.from_object("shop", {function.__name__: function for function in functions})
    return ChatCompletionAgent(service=chat, name=name, instructions=instructions, plugins=[plugin])


async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    return str((await agent("policy", POLICY, [in_words(lookup_policy)]).get_response(question)).message)


AGENTS = {}


async def take(session, turn):
    """Play one turn."""
    if session not in AGENTS:
        tools = [*map(in_words, DESK_TOOLS), ask_policy_agent]
        AGENTS[session] = agent("desk", DESK, tools), ChatHistoryAgentThread(thread_id=session)
    desk, thread = AGENTS[session]
    with TRACER.start_as_current_span("turn", attributes={"gen_ai.conversation.id": session}):
        if turn.get("stream"):
            async for _ in desk.invoke_stream(turn["user"], thread=thread):
                pass
        else:
            await desk.get_response(turn["user"], thread=thread)


asyncio.run(play_async(take))
TRACES.shutdown()
LOGS.shutdown()
