"""The recordings that are not read right yet, each with why; one that is read right must not stand here."""

_BARE = "the only tool spans are those of the driver, and results that they repeat lose their content"

_ADK = "of streamed answers each part is a log record, and no record holds what a tool returned"

NOT_YET = {
    "anthropic-openinference": _BARE,
    "anthropic-openllmetry": _BARE,
    "crewai": "the user's words stand inside the prompt of CrewAI, and of some turns nowhere",
    "google-adk-1-events": _ADK,
    "google-adk-events": _ADK,
    "haystack": "no span of this scope is read",
    "mastra": "the messages of its agent's and model's spans are not read",
    "mlflow": "arguments of the driver's own tool spans are wrapped, and make a second call of each",
    "openai-openllmetry-responses": "calls are named by the ids of their items (`fc_`)",
    "smolagents": "a run that failed is one call more than the model is shown",
    "vercel-ai-6": "the result of the sub-agent's tool comes before what the sub-agent said",
}
