"""`tracline doctor` over what real frameworks sent, whole and with something of it taken away."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracline.cli import tracline

from .not_yet import NOT_YET
from .recordings import FOLDER, names, requests_of, truth_of_recording, write_dump

KEYS = ["scope", "version", "spans", "events", "lacks", "setting"]
NAMES_A_SESSION = "session.id"

NO_LOGS: dict[str, dict[str, list[str]]] = {
    # Its default conventions write messages to log records alone.
    "openai-opentelemetry-default": {
        "opentelemetry.instrumentation.openai_v2": ["content", "log-records"],
    },
    # EVENT_ONLY was asked for; SPAN_ONLY would put messages on spans.
    "openai-opentelemetry-events": {"opentelemetry.util.genai.handler": ["content", "log-records"]},
    # Messages go to log records; the spans of its functions hold arguments and results.
    "semantic-kernel": {
        "semantic_kernel.utils.telemetry.model_diagnostics.decorators": ["content", "log-records"],
    },
}
"""Recordings of which the spans are one half: what these lack without the log records."""

LACKS: dict[str, dict[str, list[str]]] = {
    # `group_id` of a trace is not sent.
    "openai-agents-openllmetry": {"opentelemetry.instrumentation.openai_agents": ["session"]},
    # `mlflow.trace.session` is not sent, and the driver's own spans of tools have no call ids.
    "mlflow": {"mlflow.tracing.provider": ["session", "call-ids"]},
    # No span of it is read.
    "haystack": {"openinference.instrumentation.haystack": ["unread"]},
}
"""The parts that recordings lack for a known reason; those of `not_yet.py` may lack other parts."""

Change = Callable[[Any], None]


def doctor(source: Path | str, *more: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the JSON array of `tracline doctor SOURCE --format json`."""
    result = CliRunner().invoke(tracline, ["doctor", str(source), "--format", "json", *more])
    return result.exit_code, json.loads(result.stdout)


def lacks(found: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return what each instrumentation lacks that lacks anything."""
    return {lack["scope"]: lack["lacks"] for lack in found if lack["lacks"]}


def changed(name: str, folder: Path, change: Change) -> Path:
    """Write the spans of a recording, each changed, to a dump."""
    requests = []
    for data in requests_of(FOLDER / name / "otlp" / "requests.pb.zst"):
        request = ExportTraceServiceRequest.FromString(data)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    change(span)
        requests.append(request.SerializeToString())
    write_dump(folder / "changed.pb.zst", requests)
    return folder / "changed.pb.zst"


def without(*beginnings: str) -> Change:
    """Return what takes the attributes from a span whose names begin so."""

    def change(span: Any) -> None:
        left = [pair for pair in span.attributes if not pair.key.startswith(beginnings)]
        del span.attributes[:]
        span.attributes.extend(left)

    return change


@pytest.mark.parametrize("name", names())
def test_recordings_lack_what_is_known_to_be_missing(name: str) -> None:
    """A recording that is read exactly lacks only what its framework cannot send; the exit code is then 1."""
    code, found = doctor(FOLDER / name / "*" / "*.zst")
    assert [list(row) for row in found] == [KEYS] * len(found)
    assert all(len(row["setting"].splitlines()) == len(row["lacks"]) for row in found)
    assert code == bool(lacks(found))
    expect = truth_of_recording(name)["expect"]
    if name in NOT_YET:
        for scope, codes in LACKS.get(name, {}).items():
            assert lacks(found)[scope] == codes
    else:
        missing = {lack for codes in lacks(found).values() for lack in codes}
        assert ("session" in missing) == (expect.get("sessions") == "trace")
        assert ("call-ids" in missing) <= (not expect.get("call_ids", True))
        assert missing <= {"session", "call-ids"}


@pytest.mark.parametrize("name", sorted(NO_LOGS))
def test_spans_without_their_log_records_lack_content(name: str) -> None:
    """If messages go to log records, spans alone lack content, and the setting names the remedy."""
    code, found = doctor(FOLDER / name / "otlp")
    assert code == 1
    assert lacks(found) == NO_LOGS[name]
    (lack,) = (lack for lack in found if lack["lacks"])
    assert "OTEL_" in lack["setting"] or "SEMANTICKERNEL_" in lack["setting"]
    assert "log records" in lack["setting"]


def test_events_and_versions_are_those_of_the_recording() -> None:
    """The spans and events of each scope are counted, and together they are the script's."""
    code, found = doctor(FOLDER / "openai-openinference" / "otlp")
    assert code == 0
    assert found == [
        {"scope": "app", "version": "", "spans": 20, "events": 12, "lacks": [], "setting": ""},
        {
            "scope": "openinference.instrumentation.openai",
            "version": "0.1.66",
            "spans": 20,
            "events": 30,
            "lacks": [],
            "setting": "",
        },
    ]
    truth = truth_of_recording("openai-openinference")["sessions"]
    assert sum(map(len, truth.values())) == 42


CONTENT = {
    "openai-openinference": (("llm.", "input.", "output."), "OPENINFERENCE_HIDE_INPUTS"),
    "openai-openllmetry": (("gen_ai.", "traceloop.entity."), "TRACELOOP_TRACE_CONTENT"),
    "openai-opentelemetry": (("gen_ai.input", "gen_ai.output", "gen_ai.system_i"), "SPAN_ONLY"),
    "langfuse": (("langfuse.observation.input", "langfuse.observation.output"), "mask"),
    "pydantic-ai-5": (
        ("pydantic_ai.", "gen_ai.input", "gen_ai.output", "gen_ai.tool.call."),
        "include_content",
    ),
    "vercel-ai-5": (("ai.prompt", "ai.response", "ai.toolCall.args", "ai.toolCall.result"), "recordInputs"),
    "strands": (("gen_ai.input", "gen_ai.output", "gen_ai.tool."), "OTEL_SEMCONV_STABILITY_OPT_IN"),
}
"""The attribute that holds the content of recordings, and a word of the setting that switches it on."""


@pytest.mark.parametrize("name", CONTENT)
def test_content_that_is_off_is_found(name: str, tmp_path: Path) -> None:
    """Without the attributes of messages the instrumentation lacks content, and its own switch is named."""
    attributes, word = CONTENT[name]

    def change(span: Any) -> None:
        without(*attributes)(span)
        del span.events[:]

    code, found = doctor(changed(name, tmp_path, change))
    assert code == 1
    hidden = [lack for lack in found if "content" in lack["lacks"]]
    assert any(word in lack["setting"] for lack in hidden), found


def test_hidden_content_is_found(tmp_path: Path) -> None:
    """Values that OpenInference wrote over are content that is off."""

    def change(span: Any) -> None:
        for pair in span.attributes:
            if pair.key.endswith((".content", ".value")):
                pair.value.string_value = "__REDACTED__"

    _, found = doctor(changed("openai-openinference", tmp_path, change))
    assert lacks(found)["openinference.instrumentation.openai"] == ["content"]


def test_a_session_without_an_id_is_found(tmp_path: Path) -> None:
    """Without a key the trace stands for the session; the setting is that of the instrumentation."""
    code, found = doctor(changed("strands", tmp_path, without(NAMES_A_SESSION)))
    assert code == 1
    (lack,) = found
    assert lack["lacks"] == ["session"]
    assert "trace_attributes" in lack["setting"]


def test_calls_without_ids_are_found(tmp_path: Path) -> None:
    """If neither the model nor the tool records ids, calls and results have none."""

    def change(span: Any) -> None:
        ids = ("tool_call.id", "tool_call_id", "gen_ai.tool.call.id")
        left = [pair for pair in span.attributes if not pair.key.endswith(ids)]
        del span.attributes[:]
        span.attributes.extend(left)

    _, found = doctor(changed("openai-openinference", tmp_path, change))
    assert lacks(found)["openinference.instrumentation.openai"] == ["call-ids"]


def test_what_limits_cut_off_is_found(tmp_path: Path) -> None:
    """Spans that record lost attributes or events name the limits."""

    def change(span: Any) -> None:
        span.dropped_attributes_count = 1

    _, found = doctor(changed("pydantic-ai-5", tmp_path, change))
    assert lacks(found)["pydantic-ai"] == ["limits"]
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in found[0]["setting"]
    assert "41 of 41 spans" in found[0]["setting"]
