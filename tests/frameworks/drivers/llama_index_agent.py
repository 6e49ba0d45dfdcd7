"""A function agent of LlamaIndex, with OpenInference."""

import asyncio

from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, lookup_policy, play_async, provider
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from openinference.instrumentation import using_session
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

TRACES = provider()
LlamaIndexInstrumentor().instrument(tracer_provider=TRACES)
CHAT = OpenAILike(
    model=MODEL, api_base=OPENAI_URL, api_key="none", is_chat_model=True, is_function_calling_model=True
)
policy = FunctionAgent(
    name="policy", llm=CHAT, system_prompt=POLICY, tools=[FunctionTool.from_defaults(lookup_policy)]
)


async def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    return str(await policy.run(user_msg=question))


desk = FunctionAgent(
    name="desk",
    llm=CHAT,
    system_prompt=DESK,
    tools=[FunctionTool.from_defaults(tool) for tool in DESK_TOOLS]
    + [FunctionTool.from_defaults(async_fn=ask_policy_agent)],
)
MEMORY = {}


async def take(session, turn):
    """Play one turn."""
    memory = MEMORY.setdefault(session, ChatMemoryBuffer.from_defaults(token_limit=100_000))
    with using_session(session):
        await desk.run(user_msg=turn["user"], memory=memory)


asyncio.run(play_async(take))
TRACES.shutdown()
