"""OpenTelemetry semantic conventions up to 1.36.0: messages before `gen_ai.input.messages`.

From open-telemetry/semantic-conventions, `docs/gen-ai/gen-ai-events.md` of 1.36.0 (an event for each message)
and `docs/gen-ai/gen-ai-spans.md` of 1.27.0 and 1.28.0 (events with all of a prompt, of a completion).
"""

SYSTEM = "gen_ai.system"
PROMPT = "gen_ai.prompt"
COMPLETION = "gen_ai.completion"

MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Events with one message of the input each, and its role where the event has none."""
TOOL_MESSAGE_EVENT = "gen_ai.tool.message"
CHOICE_EVENT = "gen_ai.choice"
"""The event with a message of the output."""
EVENT_BODY = "gen_ai.event.content"
"""The attribute of span events with the body of a log record as JSON."""

PROMPT_EVENT = "gen_ai.content.prompt"
COMPLETION_EVENT = "gen_ai.content.completion"

EVENT_NAME = "event.name"
"""The attribute that names the event of a log record where its own field does not."""
