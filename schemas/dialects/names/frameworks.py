"""What agent frameworks write on spans beside, or before, OpenTelemetry's conventions for generative AI.

Google's ADK 1 (google/adk-python, `src/google/adk/telemetry`), any-agent 1 (mozilla-ai/any-agent,
`src/any_agent/tracing`), Pydantic AI before 1 (pydantic/pydantic-ai, `docs/logfire.md`).
"""

ADK_PREFIX = "gcp.vertex.agent."
ADK_REQUEST = "gcp.vertex.agent.llm_request"
ADK_RESPONSE = "gcp.vertex.agent.llm_response"
ADK_TOOL_ARGS = "gcp.vertex.agent.tool_call_args"
ADK_TOOL_RESPONSE = "gcp.vertex.agent.tool_response"
ADK_NOTHING = "{}"
"""What the ADK writes where it was told not to capture content."""
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
"""Names that hand-written instrumentation uses for what a tool, or a model, was given and gave back."""

MERGED_TOOLS = "(merged tools)"
"""The tool that the ADK names where it puts the answers of several into one: no tool was run."""

SEMANTIC_KERNEL_PLACE = "CHAT_MESSAGE_INDEX"
"""The place of a message in the prompt, from 0, on log records of Semantic Kernel
(microsoft/semantic-kernel, `python/semantic_kernel/utils/telemetry/model_diagnostics`)."""
LANGSMITH_KIND = "langsmith.span.kind"
LANGSMITH_MODEL, LANGSMITH_TOOL = "llm", "tool"
"""Which run a span of LangSmith's SDK is (langchain-ai/langsmith-sdk, `_internal/otel/_otel_exporter.py`).

All have what they were given and gave back in `gen_ai.prompt` and `gen_ai.completion`; of these two alone it
is a model's or a tool's.
"""
LANGSMITH_AGENT = "langsmith.metadata.lc_agent_name"
LANGSMITH_OUTPUT = "output"
"""The only field of what a function gave back that is no object."""
