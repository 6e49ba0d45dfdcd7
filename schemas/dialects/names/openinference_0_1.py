"""OpenInference semantic conventions 0.1 (openinference-semantic-conventions, Apache-2.0).

From Arize-ai/openinference: `python/openinference-semantic-conventions/src/openinference/semconv/trace`, and
`spec/` for what the fields mean. Lists are flattened: `llm.input_messages.0.message.role`.
"""

KIND = "openinference.span.kind"
LLM = "LLM"
TOOL = "TOOL"
AGENT = "AGENT"

INPUT_MESSAGES = "llm.input_messages"
OUTPUT_MESSAGES = "llm.output_messages"
PROMPTS = "llm.prompts"
CHOICES = "llm.choices"
INPUT_VALUE = "input.value"
INPUT_TYPE = "input.mime_type"
OUTPUT_VALUE = "output.value"
OUTPUT_TYPE = "output.mime_type"
PLAIN_TEXT = "text/plain"

MODEL = "llm.model_name"
REQUEST_MODEL = "llm.request.model_name"
RESPONSE_MODEL = "llm.response.model_name"

TOOL_NAME = "tool.name"
TOOL_ID = "tool.id"
TOOL_PARAMETERS = "tool.parameters"
TOOL_CALL_ID = "tool_call.id"
TOOL_CALL_NAME = "tool_call.function.name"
TOOL_CALL_ARGUMENTS = "tool_call.function.arguments"

AGENT_NAME = "agent.name"
GRAPH_NODE_NAME = "graph.node.name"
GRAPH_NODE_ID = "graph.node.id"
SESSION = "session.id"

REDACTED = "__REDACTED__"
"""The placeholder of values that the instrumentation hides."""

CHAIN = "CHAIN"
METADATA = "metadata"
"""JSON text with an application's or a framework's metadata of a span."""
LANGCHAIN_AGENT = "lc_agent_name"
"""The field of the metadata in which LangChain's `create_agent` names the agent."""
JSON = "application/json"
