"""Attributes of agent frameworks beside, or before, OpenTelemetry's conventions for generative AI.

Google's ADK 1 (google/adk-python, `src/google/adk/telemetry`), any-agent 1 (mozilla-ai/any-agent,
`src/any_agent/tracing`), Pydantic AI before 1 (pydantic/pydantic-ai, `docs/logfire.md`).
"""

ADK_PREFIX = "gcp.vertex.agent."
ADK_REQUEST = "gcp.vertex.agent.llm_request"
ADK_RESPONSE = "gcp.vertex.agent.llm_response"
ADK_TOOL_ARGS = "gcp.vertex.agent.tool_call_args"
ADK_TOOL_RESPONSE = "gcp.vertex.agent.tool_response"
ADK_NOTHING = "{}"
"""The value that the ADK writes where capture of content is off."""
ADK_SESSION = "gcp.vertex.agent.session_id"

ANY_AGENT_OPERATION = "call_llm"
ANY_AGENT_OUTPUT = "gen_ai.output"
ANY_AGENT_TOOL_ARGS = "gen_ai.tool.args"

PYDANTIC_EVENTS = "events"
"""Events of before `gen_ai.input.messages`, as a JSON list in an attribute, each with its `event.name`."""
PYDANTIC_TOOL_ARGUMENTS = "tool_arguments"
PYDANTIC_TOOL_RESPONSE = "tool_response"

INPUT = "input"
OUTPUT = "output"
TOOL_OUTPUT = "gen_ai.tool.output"
"""Names of hand-written instrumentation for the input and the output of a tool or a model."""

MERGED_TOOLS = "(merged tools)"
"""The tool name on the ADK's span that joins the answers of several tools; no tool ran in it."""

SEMANTIC_KERNEL_PLACE = "CHAT_MESSAGE_INDEX"
"""The place of a message in the prompt, from 0, on log records of Semantic Kernel
(microsoft/semantic-kernel, `python/semantic_kernel/utils/telemetry/model_diagnostics`)."""
LANGSMITH_KIND = "langsmith.span.kind"
LANGSMITH_MODEL, LANGSMITH_TOOL = "llm", "tool"
"""Kinds of spans of LangSmith's SDK (langchain-ai/langsmith-sdk, `_internal/otel/_otel_exporter.py`).

Spans of all kinds have input and output in `gen_ai.prompt` and `gen_ai.completion`; only in these two kinds
these are a model's or a tool's.
"""
LANGSMITH_AGENT = "langsmith.metadata.lc_agent_name"
LANGSMITH_OUTPUT = "output"
"""The only field of a function's output that is no object."""
