"""A crew of one agent of CrewAI a turn, with OpenInference."""

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}
os.environ |= {"CREWAI_DISABLE_TRACKING": "true", "OTEL_SDK_DISABLED": "false"}

from desk import DESK, DESK_TOOLS, MODEL, OPENAI_URL, POLICY, in_words, lookup_policy, play, provider
from openinference.instrumentation import using_session
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

TRACES = provider()
CrewAIInstrumentor().instrument(tracer_provider=TRACES)
OpenAIInstrumentor().instrument(tracer_provider=TRACES)

from crewai import LLM, Agent, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402

CHAT = LLM(model=f"openai/{MODEL}", base_url=OPENAI_URL, api_key="none")


def answer(role, instructions, tools, text):
    """Let a crew of one agent answer."""
    agent = Agent(role=role, goal="Answer.", backstory=instructions, tools=tools, llm=CHAT, cache=False)
    task = Task(description=text, expected_output="An answer.", agent=agent)
    return Crew(agents=[agent], tasks=[task], cache=False).kickoff().raw


@tool("ask_policy_agent")
def ask_policy_agent(question: str) -> str:
    """Ask the policy team a question."""
    return answer("policy", POLICY, [tool("lookup_policy")(in_words(lookup_policy))], question)


TOOLS = [*(tool(function.__name__)(in_words(function)) for function in DESK_TOOLS), ask_policy_agent]
HISTORY = {}


def take(session, turn):
    """Play one turn."""
    conversation = HISTORY.setdefault(session, [])
    conversation.append(f"Customer: {turn['user']}")
    with using_session(session):
        done = answer("desk", DESK, TOOLS, "\n".join(conversation))
    conversation.append(f"Desk: {done}")


play(take)
TRACES.shutdown()
