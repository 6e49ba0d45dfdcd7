"""Attributes of MLflow tracing 3, each value as JSON text.

From mlflow/mlflow, `mlflow/tracing/constant.py` and `mlflow/entities/span.py`.
"""

TYPE = "mlflow.spanType"
INPUT = "mlflow.spanInputs"
OUTPUT = "mlflow.spanOutputs"
MODEL = "mlflow.llm.model"
SESSION = "mlflow.trace.session"

MODELS = frozenset({"llm", "chat_model"})
TOOL = "tool"
AGENT = "agent"
"""Types of spans, in lower case."""
