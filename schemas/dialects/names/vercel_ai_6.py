"""Attributes of the Vercel AI SDK 4 to 6 (`experimental_telemetry`).

From vercel/ai, `content/docs/03-ai-sdk-core/60-telemetry.mdx` and `packages/ai/src/*/` of 6.0, with the older
names of 3.4 and 4.0 where they differ.
"""

OPERATION = "ai.operationId"
PREFIX = "ai."
TOOL_OPERATION = "ai.toolCall"
MODEL_OPERATIONS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
"""Each also with the suffix `.doGenerate` or `.doStream`: the call of the model inside."""

PROMPT = "ai.prompt"
PROMPT_MESSAGES = "ai.prompt.messages"
RESPONSE_TEXT = ("ai.response.text", "ai.result.text")
RESPONSE_CALLS = ("ai.response.toolCalls", "ai.result.toolCalls")
RESPONSE_OBJECT = ("ai.response.object", "ai.result.object")
RESPONSE_ID = "ai.response.id"
RESPONSE_MODEL = "ai.response.model"
MODEL = "ai.model.id"

TOOL_NAME = "ai.toolCall.name"
TOOL_ID = "ai.toolCall.id"
TOOL_ARGS = "ai.toolCall.args"
TOOL_RESULT = "ai.toolCall.result"

FUNCTION = "ai.telemetry.functionId"
METADATA = "ai.telemetry.metadata."
CONTEXT = "ai.settings.context."
"""The prefix of the members of `runtimeContext` in version 7 (`packages/otel`)."""
