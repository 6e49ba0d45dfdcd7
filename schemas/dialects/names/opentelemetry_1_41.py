"""OpenTelemetry semantic conventions 1.41.1: generative AI, and what all spans share.

From the registry of open-telemetry/semantic-conventions at that version (`model/gen-ai`, `model/error`,
`model/exceptions`, `model/service`, `model/session`), the last before the GenAI conventions moved to a
repository of their own.
"""

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
AGENT_NAME = "gen_ai.agent.name"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
DETAILS_EVENT = "gen_ai.client.inference.operation.details"
"""The event that may hold the messages instead of the span."""

TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"

MODEL_OPERATIONS = frozenset({"chat", "text_completion", "generate_content"})
AGENT_OPERATIONS = frozenset({"create_agent", "invoke_agent", "invoke_workflow"})
TOOL_OPERATION = "execute_tool"
OTHER_OPERATIONS = frozenset({"embeddings", "retrieval"})

RETRIEVAL_QUERY = "gen_ai.retrieval.query.text"
RETRIEVAL_DOCUMENTS = "gen_ai.retrieval.documents"
EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"

ERROR_TYPE = "error.type"
EXCEPTION_EVENT = "exception"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"
EXCEPTION_STACKTRACE = "exception.stacktrace"
SERVICE_NAME = "service.name"
SERVICE_UNKNOWN = "unknown_service"
"""The name that SDKs give a service without one; the name of its program may follow."""
SCOPE_NAME = "otel.scope.name"
"""The name of the instrumentation scope in formats without a field for it."""
LANGUAGES = ("telemetry.sdk.language", "process.runtime.name")
JAVASCRIPT = frozenset({"nodejs", "webjs"})
"""Attributes of a resource with the language of its SDK, and their values for JavaScript."""
SESSION = "session.id"
