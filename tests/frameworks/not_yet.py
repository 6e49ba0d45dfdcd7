"""The recordings that are not read right yet, each with why; one that is read right must not stand here."""

_ADK = "of streamed answers each part is a log record, and no record holds what a tool returned"

NOT_YET = {
    "google-adk-1-events": _ADK,
    "google-adk-events": _ADK,
}
