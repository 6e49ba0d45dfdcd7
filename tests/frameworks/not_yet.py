"""The recordings that are not read right yet, each with why; one that is read right must not stand here."""

_LOGS = "content in log records is not joined to its span"

NOT_YET = {
    "openai-opentelemetry-default": _LOGS,
    "openai-opentelemetry-events": _LOGS,
    "semantic-kernel": _LOGS,
}
