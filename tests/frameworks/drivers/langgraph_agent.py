"""An agent of LangChain on LangGraph with a checkpointer, instrumented by VARIANT."""

import asyncio
import os

from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, in_words, lookup_policy, play_async, provider
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

TRACES = provider()
if os.environ["VARIANT"] == "openinference":
    from openinference.instrumentation.langchain import LangChainInstrumentor
else:
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor as LangChainInstrumentor
LangChainInstrumentor().instrument(tracer_provider=TRACES)

CHAT = ChatOpenAI(model=MODEL, base_url=OPENAI_URL, api_key="none")
policy = create_agent(CHAT, [in_words(lookup_policy)], system_prompt=POLICY, name="policy")


async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    done = await policy.ainvoke({"messages": [{"role": "user", "content": question}]})
    return done["messages"][-1].content


desk = create_agent(
    CHAT,
    [*map(in_words, DESK_TOOLS), ask_policy_agent],
    system_prompt=DESK,
    checkpointer=InMemorySaver(),
    name="desk",
)


async def take(session, turn):
    """Play one turn."""
    messages = {"messages": [{"role": "user", "content": turn["user"]}]}
    config = {"configurable": {"thread_id": session}, "metadata": {"session_id": session}}
    if turn.get("stream"):
        async for _ in desk.astream(messages, config, stream_mode="messages"):
            pass
    else:
        await desk.ainvoke(messages, config)


asyncio.run(play_async(take))
TRACES.shutdown()
