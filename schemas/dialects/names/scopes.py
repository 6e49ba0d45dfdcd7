"""Instrumentation scopes that write something in a way of their own, by the names that their spans carry.

Read in the sources of each: Arize-ai/openinference (`python/instrumentation`), strands-agents/sdk-python
(`src/strands/telemetry/tracer.py`), google/adk-python (`src/google/adk/telemetry`), pydantic/logfire
(`logfire/_internal/integrations/llm_providers`), BerriAI/litellm (`litellm/integrations/opentelemetry.py`).
"""

_OPENINFERENCE = "openinference.instrumentation."

LANGCHAIN = _OPENINFERENCE + "langchain"
"""Names a span an agent where its own name has `agent` in it, and gives the only argument as it is."""
LLAMA_INDEX = _OPENINFERENCE + "llama_index"
"""Calls every method of a model a model's call."""
LLAMA_INDEX_CALLS = frozenset(
    [
        *("chat", "achat", "stream_chat", "astream_chat"),
        *("complete", "acomplete", "stream_complete", "astream_complete"),
    ]
)
"""The methods of LlamaIndex's models that call one; the others prepare that, or wrap it."""
OPENAI_AGENTS = _OPENINFERENCE + "openai_agents"
SMOLAGENTS = _OPENINFERENCE + "smolagents"

DSPY = _OPENINFERENCE + "dspy"
"""Names a tool's span by the method that runs it, and gives messages as DSPy's adapter writes them."""
DSPY_METHODS = (".__call__", ".acall")
"""The methods of DSPy's tools."""
DSPY_AGENTS = frozenset({"ReAct.forward", "ReAct.aforward", "ReActV2.forward", "ReActV2.aforward"})
"""The spans of DSPy's agents, which it calls chains."""

FUNCTIONS_CALLED = frozenset({LLAMA_INDEX, SMOLAGENTS, DSPY})
"""Where a tool's arguments are those of the function that runs it: `{"args": [...], "kwargs": {...}}`."""
ADK = frozenset({"gcp.vertex.agent", _OPENINFERENCE + "google_adk"})
"""Where a tool's text stands in an object: `{"result": "Error: no such user"}`."""
NO_EMPTY_ARGUMENTS = frozenset({OPENAI_AGENTS, _OPENINFERENCE + "google_adk"})
"""Where a call without arguments leaves them out of the messages."""
TEXT_PARTS = frozenset({"strands.telemetry.tracer"})
"""Where a tool's result is JSON text of the parts that the model gets: `[{"text": ...}]`."""
HAYSTACK = _OPENINFERENCE + "haystack"
"""Has one span for each run of an agent, without a name: one inside another is a sub-agent's."""
AGENTS_BESIDE = frozenset({"opentelemetry.instrumentation.openai_agents"})
"""Where all agents of a run stand right below its workflow, also those that a tool of another called."""

LITELLM = "litellm"
LOGFIRE = "logfire"
"""What the names of logfire's scopes begin with."""
