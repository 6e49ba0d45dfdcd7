"""Attributes of Langfuse's SDKs since version 3.

From langfuse/langfuse-python, `langfuse/_client/attributes.py` and `constants.py`. Input and output are text
as it is, any other value as JSON.
"""

TYPE = "langfuse.observation.type"
INPUT = "langfuse.observation.input"
OUTPUT = "langfuse.observation.output"
MODEL = "langfuse.observation.model.name"
LEVEL = "langfuse.observation.level"
STATUS_MESSAGE = "langfuse.observation.status_message"
SESSION = "langfuse.session.id"
TRACE_INPUT = "langfuse.trace.input"
TRACE_OUTPUT = "langfuse.trace.output"

GENERATION = "generation"
TOOL = "tool"
AGENT = "agent"
ERROR = "ERROR"
"""The level of an observation that failed."""
