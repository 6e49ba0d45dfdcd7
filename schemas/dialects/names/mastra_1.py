"""Attributes of Mastra 1's exporter for OpenTelemetry.

From mastra-ai/mastra, `observability/otel-exporter/src/gen-ai-semantics.ts`, and
`packages/core/src/observability` for the content of each type of span.
The input and the output of a span are under its type, as JSON text.
"""

TYPE = "mastra.span.type"
AGENT = "agent_run"
GENERATION = "model_generation"
"""All calls of a model up to its answer; each is a `STEP`."""
STEP = "model_step"
"""One call of a model, with the runs of the tools that it called; its input is an outline."""
INFERENCE = "model_inference"
"""The same call without the runs, and without the calls in its output."""
INPUT = {kind: f"mastra.{kind}.input" for kind in (AGENT, GENERATION, STEP, INFERENCE)}
OUTPUT = {kind: f"mastra.{kind}.output" for kind in (AGENT, GENERATION, STEP, INFERENCE)}
METADATA = "mastra.metadata."
"""The prefix of the members of `tracingOptions.metadata`."""
MODEL_METADATA = METADATA + "modelMetadata"
MODEL_ID = "modelId"
CALLED_TOOLS = "tool-calls"
"""The finish reason of a model that called tools."""
