"""OpenLLMetry's conventions 0.4 (opentelemetry-semantic-conventions-ai, Apache-2.0).

From traceloop/openllmetry, `packages/opentelemetry-semantic-conventions-ai`. Lists are flattened:
`gen_ai.prompt.0.role`. Since 0.5 messages and tools follow OpenTelemetry's conventions.
"""

KIND = "traceloop.span.kind"
TOOL = "tool"
AGENT = "agent"

ENTITY_NAME = "traceloop.entity.name"
ENTITY_INPUT = "traceloop.entity.input"
ENTITY_OUTPUT = "traceloop.entity.output"
ASSOCIATION = "traceloop.association.properties."
"""The prefix of an application's attributes of a span, such as a session's id."""

REQUEST_TYPE = "llm.request.type"
MODEL_REQUESTS = frozenset({"chat", "completion"})

PROMPT = "gen_ai.prompt"
COMPLETION = "gen_ai.completion"
OLD_PROMPT = "llm.prompts"
OLD_COMPLETION = "llm.completions"
"""Before 0.1."""

REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
OLD_REQUEST_MODEL = "llm.request.model"
OLD_RESPONSE_MODEL = "llm.response.model"
