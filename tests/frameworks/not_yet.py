"""The recordings that are not read right yet, each with why; one that is read right must not stand here."""

_LOGS = "content in log records is not joined to its span"
_BARE = "the only tool spans are those of the driver, and results that they repeat lose their content"

NOT_YET = {
    "anthropic-openinference": _BARE,
    "anthropic-openllmetry": _BARE,
    "haystack": "no span of this scope is read",
    "openai-opentelemetry-default": _LOGS,
    "openai-opentelemetry-events": _LOGS,
    "semantic-kernel": _LOGS,
}
