"""The settings with which an instrumentation's telemetry can be audited.

Read in the documentation and sources of each:

- open-telemetry/opentelemetry-python-contrib: `instrumentation-genai/*/README.rst` (openai-v2, google-genai,
  anthropic, vertexai, openai-agents-v2), `util/opentelemetry-util-genai/README.rst`,
  `instrumentation/opentelemetry-instrumentation-botocore/src/.../botocore/__init__.py` (names of its scopes);
  https://pypi.org/project/opentelemetry-instrumentation-genai-anthropic/
- traceloop/openllmetry: `packages/*/README.md`; https://traceloop.com/docs/openllmetry/tracing/sessions
- Arize-ai/openinference: `spec/configuration.md`, `python/openinference-instrumentation/README.md`,
  `js/packages/openinference-core/README.md`
- https://langfuse.com/docs/sessions, https://langfuse.com/docs/observability/features/masking
- https://ai.pydantic.dev/api/models/instrumented, https://logfire.pydantic.dev/docs/integrations/llms/openai
- https://strandsagents.com/docs/user-guide/sdk/observability-evaluation/traces/
- google/adk-python: `src/google/adk/telemetry/tracing.py`
- https://microsoft.github.io/autogen/stable/user-guide/core-user-guide/framework/telemetry.html
- microsoft/agent-framework: `python/packages/core/agent_framework/observability.py`;
  https://learn.microsoft.com/agent-framework/agents/observability
- microsoft/semantic-kernel:
  `python/semantic_kernel/utils/telemetry/model_diagnostics/model_diagnostics_settings.py`
- dotnet/extensions: `src/Libraries/Microsoft.Extensions.AI/ChatCompletion/OpenTelemetryChatClient.cs`
- BerriAI/litellm: `docs/my-website/docs/observability/opentelemetry_integration.md`
- vercel/ai: `content/docs/03-ai-sdk-core/60-telemetry.mdx`
- mastra-ai/mastra: `docs/src/content/en/docs/observability/tracing/overview.mdx`
- https://mlflow.org/docs/latest/genai/tracing/opentelemetry/export
- https://docs.haystack.deepset.ai/docs/tracing-opentelemetry
- openlit/openlit: `sdk/python/src/openlit/otel/tracing.py`
- langchain-ai/langsmith-sdk: `python/langsmith/_internal/otel/_otel_exporter.py`

`tests/frameworks/frameworks.toml` has what was tried, and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Advice:
    """The settings of one instrumentation.

    `content` makes its spans hold messages, `session` assigns a turn to a conversation; a text that begins
    with "none" means that there is no such setting. `logs` is whether messages may go to log records: then
    those must be exported beside the spans.
    """

    content: str
    session: str
    logs: bool = False


_OWN_SPAN = "`gen_ai.conversation.id` on a span of your own around a turn"
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_LATEST = "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"
_HIDE = "OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and their like"
_ASSOCIATION = (
    "`traceloop.association.properties.session_id`, which "
    '`Traceloop.set_association_properties({"session_id": id})` writes'
)
_TRACE_CONTENT = 'do not set TRACELOOP_TRACE_CONTENT to "false"'
_SPANS_OR_LOGS = f"{_CAPTURE}=SPAN_ONLY (EVENT_ONLY needs log records exported, too)"
_TRUE_LOGS = f"{_CAPTURE}=true, and export log records"

_OPENINFERENCE = Advice(
    f"do not set {_HIDE}", "`using_session(id)` around a turn, of `openinference.instrumentation`"
)
_OPENINFERENCE_JS = Advice(
    f"do not set {_HIDE}, nor `hideInputs` or `hideOutputs` of `traceConfig`",
    "`context.with(setSession(context.active(), { sessionId }), ...)` around a turn, "
    "of `@arizeai/openinference-core`",
)
_OPENLLMETRY = Advice(_TRACE_CONTENT, f"{_ASSOCIATION}, or {_OWN_SPAN}")
_OPENLLMETRY_JS = Advice(
    f"{_TRACE_CONTENT}, nor `traceContent` to false",
    f"`traceloop.withConversation(id, ...)` around a turn, or {_OWN_SPAN}",
)
_BOTH_NAMES = Advice(
    f"{_TRACE_CONTENT} (OpenLLMetry); {_TRUE_LOGS} (OpenTelemetry's own)", f"{_ASSOCIATION}, or {_OWN_SPAN}"
)
_LOGGED = Advice(_TRUE_LOGS, _OWN_SPAN, logs=True)
_GENAI_UTIL = Advice(f"{_LATEST} and {_SPANS_OR_LOGS}", _OWN_SPAN, logs=True)
_SEMANTIC_KERNEL = Advice(
    "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS=true, "
    "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true, and a handler of log records "
    "that exports them",
    _OWN_SPAN,
    logs=True,
)
_DOTNET = Advice(
    f"`EnableSensitiveData = true` of `UseOpenTelemetry`, or {_CAPTURE}=true",
    f"`ConversationId` of the chat options, or {_OWN_SPAN}",
)

_OPENTELEMETRY = "opentelemetry.instrumentation."
_PACKAGES = (
    "agno", "alephalpha", "anthropic", "bedrock", "cohere", "crewai", "google_generativeai", "groq",
    "haystack", "llamaindex", "mcp", "mistralai", "ollama", "openai", "openai.v0", "openai.v1", "replicate",
    "sagemaker", "together", "transformers", "watsonx", "writer",
)  # fmt: skip
"""OpenLLMetry's packages, which name their scopes as OpenTelemetry's own do."""

_BY_SCOPE = MappingProxyType(
    {
        **{_OPENTELEMETRY + package: _OPENLLMETRY for package in _PACKAGES},
        "traceloop.tracer": _OPENLLMETRY,
        "@traceloop/": _OPENLLMETRY_JS,
        _OPENTELEMETRY + "openai_agents": Advice(
            f"{_TRACE_CONTENT} (OpenLLMetry); {_CAPTURE}=span_only (OpenTelemetry's own)",
            "none of the SDK's own: `group_id` of `trace()` is not sent; "
            f"{_ASSOCIATION}, where traceloop-sdk is used",
        ),
        _OPENTELEMETRY + "langchain": Advice(
            _TRACE_CONTENT, f"`session_id` in the metadata of the configuration, or {_ASSOCIATION}"
        ),
        _OPENTELEMETRY + "vertexai": _BOTH_NAMES,
        _OPENTELEMETRY + "openai_v2": Advice(
            f"{_TRUE_LOGS}; or {_LATEST} and {_CAPTURE}=SPAN_ONLY", _OWN_SPAN, logs=True
        ),
        _OPENTELEMETRY + "google_genai": _LOGGED,
        _OPENTELEMETRY + "botocore.bedrock-runtime": _LOGGED,
        _OPENTELEMETRY + "genai.": _GENAI_UTIL,
        "opentelemetry.util.genai.": _GENAI_UTIL,
        "openinference.instrumentation.": _OPENINFERENCE,
        "openinference.instrumentation.langchain": Advice(
            _OPENINFERENCE.content,
            "`thread_id` of the configuration, `session_id` in its metadata, "
            "or `using_session(id)` around a turn",
        ),
        "openinference.instrumentation.google_adk": Advice(
            f"{_OPENINFERENCE.content}; set ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN=1, "
            "else all calls of a run write over one span",
            "the id of the runner's session, which is always sent",
        ),
        "@arizeai/": _OPENINFERENCE_JS,
        "langfuse-sdk": Advice(
            "do not set a `mask` that removes messages, "
            "nor LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED to false",
            "`propagate_attributes(session_id=id)` around a turn (`propagateAttributes({ sessionId }, ...)`)",
        ),
        "langsmith": Advice(
            "do not set LANGSMITH_HIDE_INPUTS or LANGSMITH_HIDE_OUTPUTS",
            "`session_id` or `thread_id` in the metadata of a run",
        ),
        "pydantic-ai": Advice("do not set `include_content` to False", "`conversation_id` of a run"),
        "logfire.": Advice("always sent, unless a `scrubbing` callback removes messages", _OWN_SPAN),
        "strands.telemetry.": Advice(
            f"always sent; {_LATEST} sends it by today's conventions",
            '`trace_attributes={"session.id": id}` of an agent',
        ),
        "gcp.vertex.agent": Advice(
            f"{_SPANS_OR_LOGS}; in version 1 of its telemetry {_CAPTURE}=true and export log records, "
            "or do not set ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS to false",
            "the id of the runner's session, which is always sent",
            logs=True,
        ),
        "autogen-core": Advice(
            "none: its spans hold no messages; openinference-instrumentation-autogen-agentchat writes them",
            "`using_session(id)` around a run, of `openinference.instrumentation`",
        ),
        "com.anthropic.sdk.": Advice(
            "none: its spans hold no messages; an instrumentation of the `anthropic` package writes them",
            f"that of the instrumentation beside, or {_OWN_SPAN}",
        ),
        "agent_framework": Advice(
            "`enable_instrumentation(enable_sensitive_data=True)`, or ENABLE_INSTRUMENTATION=true and "
            "ENABLE_SENSITIVE_DATA=true",
            _OWN_SPAN,
        ),
        "semantic_kernel.": _SEMANTIC_KERNEL,
        "Experimental.Microsoft.Extensions.AI": _DOTNET,
        "Experimental.Microsoft.Agents.AI": _DOTNET,
        "litellm": Advice(
            "do not set `litellm.turn_off_message_logging` to True; set USE_OTEL_LITELLM_REQUEST_SPAN=true, "
            "else each call writes over the span around it",
            f'{_OWN_SPAN}, which `metadata={{"litellm_parent_otel_span": span}}` of a call names',
        ),
        "ai": Advice(
            "`experimental_telemetry: { isEnabled: true }`, `recordInputs` and `recordOutputs` not false",
            "`metadata: { sessionId }` of `experimental_telemetry`",
        ),
        "gen_ai": Advice(
            "`registerTelemetry(new OpenTelemetry({ runtimeContext: true }))`",
            "`runtimeContext: { sessionId }` with `telemetry.includeRuntimeContext`",
        ),
        "@mastra/": Advice(
            "`tracingOptions` without `hideInput` or `hideOutput`",
            "`tracingOptions: { metadata: { sessionId } }` of a call",
        ),
        "mlflow.tracing.": Advice("always sent", "none: `mlflow.trace.session` is not sent over OTLP"),
        "haystack": Advice("HAYSTACK_CONTENT_TRACING_ENABLED=true", _OWN_SPAN),
        "openlit.": Advice("do not set `capture_message_content` of `openlit.init` to False", _OWN_SPAN),
    }
)
"""By the scope's whole name, or by a prefix up to a dot or slash."""


def advice_for(scope: str) -> Advice | None:
    """Return the settings of the instrumentation with that scope, None where they are not known."""
    name = scope
    while name and name not in _BY_SCOPE:
        name = name[: max(name.rfind(".", 0, -1), name.rfind("/", 0, -1)) + 1]
    return _BY_SCOPE.get(name)
