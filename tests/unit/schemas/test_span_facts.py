"""Facts of a span in any dialect: session, end, nesting, error, service, other attributes."""

from __future__ import annotations

from typing import Any

import pytest
from tracline.schemas.chat.message import ATTRIBUTE_CHARS_MAX, ATTRIBUTES_MAX, ID_CHARS_MAX
from tracline.schemas.dialects.session_key import SESSION_KEYS
from tracline.schemas.dialects.span_facts import CONTENTS

from .dialect_spans import chat, content_of


@pytest.mark.parametrize(
    "key",
    [
        *("gen_ai.conversation.id", "langfuse.session.id", "session.id", "mlflow.trace.session"),
        *("traceloop.association.properties.session_id", "traceloop.association.properties.thread_id"),
        *("ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.conversationId"),
        *("ai.settings.context.sessionId", "mastra.metadata.threadId", "metadata.session_id"),
        *("langsmith.metadata.thread_id", "langsmith.trace.session_id", "gcp.vertex.agent.session_id"),
    ],
)
def test_known_keys_name_the_session(key: str) -> None:
    """On a span of any part; a number is its digits; resources, which outlive sessions, are not asked."""
    assert content_of({key: "s1"}).session == "s1"
    assert content_of({**chat(), key: 17}).session == "17"
    assert content_of({}, resource={key: "s1"}).session is None


def test_keys_are_asked_in_their_order() -> None:
    """Of several the one that names a conversation best; one that is no key is passed over."""
    attributes: dict[str, Any] = {key: f"s{place}" for place, key in reversed(list(enumerate(SESSION_KEYS)))}
    for place, key in enumerate(SESSION_KEYS):
        assert content_of(attributes).session == f"s{place}"
        attributes[key] = ["", "x" * (ID_CHARS_MAX + 1), None, True, ["s"], "\ud800"][place % 6]
    assert content_of(attributes).session is None


@pytest.mark.parametrize(
    ("value", "truth"),
    [(True, True), ("true", True), ("False", False), (False, False), (1, None), ("yes", None)],
)
def test_the_end_and_nesting_are_truth_values_or_text(value: Any, truth: bool | None) -> None:
    """Exporters without truth values write text."""
    content = content_of({"tracline.session.end": value, "tracline.nested": value})
    assert (content.ends, content.nested, content.attributes) == (truth is True, truth, {})


def test_a_failed_span_has_its_error() -> None:
    """`error.type`, else the last exception's, else only that it failed."""
    first, last = ({"exception.type": name} for name in ("TimeoutError", "KeyError"))
    events = [("exception", first), ("exception", last)]
    assert content_of({"error.type": "429"}, *events, failed=True).error == "429"
    assert content_of({}, *events, failed=True).error == "KeyError"
    assert content_of({}, ("exception", {}), failed=True).error == "error"
    assert content_of({}, failed=True).error == "error"


def test_an_exception_that_was_overcome_is_no_error() -> None:
    """Retries record exceptions on spans that succeed; one that left the span did not."""
    caught = {"exception.type": "TimeoutError"}
    assert content_of({}, ("exception", caught)).error is None
    assert content_of({}, ("exception", {**caught, "exception.escaped": True})).error == "TimeoutError"


@pytest.mark.parametrize(
    ("name", "service"),
    [("shop", "shop"), ("unknown_service", None), ("unknown_service:python", None), ("", None), (7, None)],
)
def test_the_service_is_one_that_somebody_named(name: Any, service: str | None) -> None:
    """SDKs fill in a default name."""
    assert content_of({}, resource={"service.name": name}).service == service


def test_other_plain_attributes_are_stored_as_text() -> None:
    """The span's, then the resource's; lists, values without text, and what columns hold are not."""
    attributes = {
        "a": "x",
        "b": 1,
        "c": 0.5,
        "d": True,
        "e": "",
        "f": [1],
        "g": None,
        "h": b"x",
        "i": float("nan"),
    }
    content = content_of(
        {**attributes, "gen_ai.agent.name": "desk"},
        resource={"a": "other", "zone": "eu", "service.name": "s"},
    )
    assert content.attributes == {"a": "x", "b": "1", "c": "0.5", "d": "true", "e": "", "zone": "eu"}


def test_attributes_that_are_too_long_or_no_text_are_left_out() -> None:
    """So are those beyond the limit of their number."""
    attributes = {
        "long": "x" * (ATTRIBUTE_CHARS_MAX + 1),
        "x" * 1001: "long",
        "half": "\ud83d",
        "\ud83d": "half",
    }
    assert content_of({**attributes, "": "no name", "is": "x" * ATTRIBUTE_CHARS_MAX}).attributes.keys() == {
        "is"
    }
    assert len(content_of({str(n): n for n in range(ATTRIBUTES_MAX + 9)}).attributes) == ATTRIBUTES_MAX


def test_no_attribute_holds_message_content() -> None:
    """Messages, arguments and results are in their columns, and in no other place."""
    flattened = {
        **dict.fromkeys(
            ["gen_ai.prompt.0.content", "gen_ai.completion.10.content", "llm.prompts.0.content"], "said"
        ),
        **dict.fromkeys(
            ["llm.input_messages.0.message.content", "llm.output_messages.0.message.content"], "said"
        ),
        **dict.fromkeys(
            ["retrieval.documents.0.document.content", "reranker.query", "ai.prompt.tools"], "said"
        ),
        **dict.fromkeys(["llm.prompt_template.variables", "llm.tools.0.tool.json_schema"], "said"),
    }
    for attributes in (chat(), {"openinference.span.kind": "CHAIN"}, {}):
        content = content_of(
            {**attributes, **dict.fromkeys(CONTENTS, "said"), **flattened, "gen_ai.prompt.name": "p"}
        )
        assert "said" not in content.attributes.values()
        assert content.attributes["gen_ai.prompt.name"] == "p"


@pytest.mark.parametrize("key", ["gen_ai.agent.name", "agent.name", "ai.telemetry.functionId"])
def test_a_span_of_any_part_may_name_its_agent(key: str) -> None:
    """A model's call and a tool's run have it where the instrumentation knows it."""
    for attributes in ({}, chat(), {"openinference.span.kind": "LLM"}, {"ai.operationId": "ai.toolCall"}):
        assert content_of({**attributes, key: "desk"}).agent == "desk"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("timeout", "timeout"),
        (503, "503"),
        ("too long " * 200, "error"),
        (True, "error"),
        ([], "error"),
        ("", None),
        (False, None),
        (None, None),
    ],
)
def test_an_error_type_of_any_kind_is_an_error(given: object, error: str | None) -> None:
    """Some write a status code, or a whole message; an empty one is none."""
    assert content_of({"gen_ai.operation.name": "chat", "error.type": given}).error == error
