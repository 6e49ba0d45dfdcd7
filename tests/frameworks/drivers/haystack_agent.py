"""An agent of Haystack, with OpenInference."""

from desk import DESK, MODEL, OPENAI_URL, POLICY, in_text, play, provider, tools_of, use
from openinference.instrumentation import using_session
from openinference.instrumentation.haystack import HaystackInstrumentor

TRACES = provider()
HaystackInstrumentor().instrument(tracer_provider=TRACES)

from haystack import Pipeline  # noqa: E402
from haystack.components.agents import Agent  # noqa: E402
from haystack.components.generators.chat import OpenAIChatGenerator  # noqa: E402
from haystack.dataclasses import ChatMessage  # noqa: E402
from haystack.tools import Tool  # noqa: E402
from haystack.utils import Secret  # noqa: E402


def agent(name):
    """Return a new agent with its tools."""
    tools = []
    for tool_name, about, schema in tools_of(name):

        def run(_name=tool_name, **args):
            if _name == "ask_policy_agent":
                return answered("policy", [ChatMessage.from_user(args["question"])])[-1].text
            return in_text(lambda: use(_name, **args))

        tools.append(Tool(name=tool_name, description=about, parameters=schema, function=run))
    chat = OpenAIChatGenerator(
        model=MODEL, api_base_url=OPENAI_URL, api_key=Secret.from_token("none"), max_retries=2
    )
    made = Agent(chat_generator=chat, tools=tools, system_prompt=DESK if name == "desk" else POLICY)
    pipeline = Pipeline()
    pipeline.add_component("agent", made)
    return pipeline


def answered(name, messages):
    """Let an agent answer in a pipeline: all messages."""
    return agent(name).run({"agent": {"messages": messages}})["agent"]["messages"]


HISTORY = {}


def take(session, turn):
    """Play one turn."""
    messages = [*HISTORY.get(session, []), ChatMessage.from_user(turn["user"])]
    with using_session(session):
        done = answered("desk", messages)
    HISTORY[session] = [message for message in done if message.role.value != "system"]


play(take)
TRACES.shutdown()
