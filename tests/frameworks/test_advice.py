"""The advice for an instrumentation names the settings that the frameworks that were run needed."""

from __future__ import annotations

import re

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracline.schemas.instrumentations.advice import advice_for

from .framework import frameworks
from .recordings import FOLDER, names, requests_of

DRIVERS = "app"
"""The scope of the spans that a driver writes itself."""


def scopes(name: str) -> set[str]:
    """Return the scopes of the spans in a recording."""
    return {
        scope.scope.name
        for request in requests_of(FOLDER / name / "otlp" / "requests.pb.zst")
        for resource in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope in resource.scope_spans
    }


@pytest.mark.parametrize("name", names())
def test_every_scope_that_frameworks_sent_has_advice(name: str) -> None:
    """Every scope of a recording is known, but for that of the driver's own spans."""
    assert [scope for scope in scopes(name) if not advice_for(scope)] in ([], [DRIVERS])


@pytest.mark.parametrize("name", names())
def test_advice_names_what_the_framework_was_run_with(name: str) -> None:
    """Variables and functions that `frameworks.toml` names stand in the advice for one of its scopes."""
    (framework,) = frameworks(name)
    advice = [known for scope in scopes(name) if (known := advice_for(scope))]
    for word in re.findall(r"[A-Z]+(?:_[A-Z]+)+", framework.content) + code(framework.content):
        assert any(word in known.content for known in advice), word
    for word in code(framework.session):
        assert any(word in known.session for known in advice), word
    if framework.session.startswith("none"):
        assert any(known.session.startswith("none") for known in advice)


def code(text: str) -> list[str]:
    """Return the first name in each piece of code in a text."""
    return [found[1] for quoted in re.findall("`[^`]+`", text) if (found := re.search(r"([\w.]+)", quoted))]


def test_advice_is_that_of_the_longest_name_that_fits() -> None:
    """A scope's own name goes before what it begins with, and names are cut at dots and slashes only."""
    langchain, openai = (
        advice_for(f"openinference.instrumentation.{name}") for name in ("langchain", "openai")
    )
    assert langchain != openai
    assert advice_for("openinference.instrumentation.langchain.more") == openai
    assert advice_for("@mastra/otel-bridge") == advice_for("@mastra/otel-exporter")
    for unknown in (
        "",
        ".",
        "//",
        "ai.mine",
        "gen_ai2",
        "openinference",
        "opentelemetry.instrumentation.flask",
    ):
        assert advice_for(unknown) is None


def test_only_some_write_messages_to_log_records() -> None:
    """OpenTelemetry's own for the OpenAI SDK does, where content is switched on; OpenInference never does."""
    logged = {
        name: advice is not None and advice.logs
        for name in ("opentelemetry.instrumentation.openai_v2", "openinference.instrumentation.openai")
        for advice in [advice_for(name)]
    }
    assert list(logged.values()) == [True, False]
