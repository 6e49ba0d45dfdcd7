"""A tool-calling agent of smolagents, with OpenInference."""

from desk import DESK, MODEL, OPENAI_URL, POLICY, play, provider, tools_of, use
from openinference.instrumentation import using_session
from openinference.instrumentation.smolagents import SmolagentsInstrumentor

TRACES = provider()
SmolagentsInstrumentor().instrument(tracer_provider=TRACES)

from smolagents import OpenAIServerModel, Tool, ToolCallingAgent  # noqa: E402


def tool(tool_name, about, schema, run):
    """Return a tool of smolagents."""
    fields = {
        field: {"type": kind["type"], "description": field} for field, kind in schema["properties"].items()
    }

    class Made(Tool):
        name = tool_name
        description = about
        inputs = fields
        output_type = "any"
        skip_forward_signature_validation = True

        def forward(self, **args):
            return run(**args)

    return Made()


def agent(agent_name):
    """Return a new agent with its tools."""
    model = OpenAIServerModel(model_id=MODEL, api_base=OPENAI_URL, api_key="none")
    tools = []
    for name, about, schema in tools_of(agent_name):

        def run(_name=name, **args):
            if _name == "ask_policy_agent":
                return agent("policy").run(args["question"])
            return use(_name, **args)

        tools.append(tool(name, about, schema, run))
    instructions = DESK if agent_name == "desk" else POLICY
    return ToolCallingAgent(
        tools=tools, model=model, instructions=instructions, name=agent_name, verbosity_level=0, max_steps=8
    )


AGENTS = {}


def take(session, turn):
    """Play one turn."""
    desk = AGENTS.setdefault(session, agent("desk"))
    with using_session(session):
        if turn.get("stream"):
            list(desk.run(turn["user"], reset=False, stream=True))
        else:
            desk.run(turn["user"], reset=False)


play(take)
TRACES.shutdown()
