"""Mastra 1: what its exporter for OpenTelemetry writes on spans.

From mastra-ai/mastra, `observability/otel-exporter/src/gen-ai-semantics.ts`, and
`packages/core/src/observability` for what each type of span holds.
The input and the output of a span stand behind its type, as JSON text.
"""

TYPE = "mastra.span.type"
AGENT = "agent_run"
GENERATION = "model_generation"
"""All that a model was asked until it answered, of which each step is a `STEP`."""
STEP = "model_step"
"""One call of a model, with the runs of the tools that it called; its input is an outline."""
INFERENCE = "model_inference"
"""The same call without the runs, and without the calls in what it says."""
INPUT = {kind: f"mastra.{kind}.input" for kind in (AGENT, GENERATION, STEP, INFERENCE)}
OUTPUT = {kind: f"mastra.{kind}.output" for kind in (AGENT, GENERATION, STEP, INFERENCE)}
METADATA = "mastra.metadata."
"""What goes before the members of `tracingOptions.metadata`."""
MODEL_METADATA = METADATA + "modelMetadata"
MODEL_ID = "modelId"
CALLED_TOOLS = "tool-calls"
"""The reason to finish of a model that called tools."""
