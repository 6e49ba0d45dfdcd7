"""Instrumentation scopes that need special treatment, by the names on their spans.

Taken from the sources of each: Arize-ai/openinference (`python/instrumentation`), strands-agents/sdk-python
(`src/strands/telemetry/tracer.py`), google/adk-python (`src/google/adk/telemetry`), pydantic/logfire
(`logfire/_internal/integrations/llm_providers`), BerriAI/litellm (`litellm/integrations/opentelemetry.py`).
"""

_OPENINFERENCE = "openinference.instrumentation."

LANGCHAIN = _OPENINFERENCE + "langchain"
"""Marks a span with `agent` in its name as an agent's, and writes a single argument as it is."""
LLAMA_INDEX = _OPENINFERENCE + "llama_index"
"""Marks a span for every method of a model as a model's call."""
LLAMA_INDEX_CALLS = frozenset(
    [
        *("chat", "achat", "stream_chat", "astream_chat"),
        *("complete", "acomplete", "stream_complete", "astream_complete"),
    ]
)
"""The methods of LlamaIndex's models that call one; further methods prepare or wrap the call."""
OPENAI_AGENTS = _OPENINFERENCE + "openai_agents"
SMOLAGENTS = _OPENINFERENCE + "smolagents"

DSPY = _OPENINFERENCE + "dspy"
"""Names a tool's span by the method that runs it, and gives messages as DSPy's adapter writes them."""
DSPY_METHODS = (".__call__", ".acall")
"""The methods of DSPy's tools."""
DSPY_AGENTS = frozenset({"ReAct.forward", "ReAct.aforward", "ReActV2.forward", "ReActV2.aforward"})
"""The spans of DSPy's agents, which it calls chains."""

FUNCTIONS_CALLED = frozenset({LLAMA_INDEX, SMOLAGENTS, DSPY})
"""Scopes with a tool's arguments as a function's: `{"args": [...], "kwargs": {...}}`."""
ADK = frozenset({"gcp.vertex.agent", _OPENINFERENCE + "google_adk"})
"""Scopes with a tool's text in an object: `{"result": "Error: no such user"}`."""
NO_EMPTY_ARGUMENTS = frozenset({OPENAI_AGENTS, _OPENINFERENCE + "google_adk"})
"""Scopes with messages that omit the arguments of a call without any."""
TEXT_PARTS = frozenset({"strands.telemetry.tracer"})
"""Scopes with a tool's result as JSON text of the model's parts: `[{"text": ...}]`."""
HAYSTACK = _OPENINFERENCE + "haystack"
"""Has one span for each run of an agent, without a name: one inside another is a sub-agent's."""
AGENTS_BESIDE = frozenset({"opentelemetry.instrumentation.openai_agents"})
"""Scopes with all agents of a run right below its workflow, also those that another agent's tool called."""

LITELLM = "litellm"
LOGFIRE = "logfire"
"""The prefix of logfire's scopes."""
