"""The version of a scope comes with its spans, whatever wrote them."""

from __future__ import annotations

import json

from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.schemas.otlp.decode import decode_json, decode_protobuf

IDS = {"traceId": "1" * 32, "spanId": "2" * 16}


def request() -> TracesData:
    """Return a request of two scopes, one without a version."""
    data = TracesData()
    scopes = data.resource_spans.add().scope_spans
    for name, version in (("pydantic-ai", "2.68.0"), ("app", "")):
        scope = scopes.add()
        scope.scope.name, scope.scope.version = name, version
        scope.spans.add(trace_id=b"\x11" * 16, span_id=b"\x22" * 8, name="chat")
    return data


def test_protobuf_and_json_carry_the_version() -> None:
    """Each span has that of the scope around it, in protobuf and in JSON alike."""
    scopes = [("pydantic-ai", "2.68.0"), ("app", "")]
    for found in (
        decode_protobuf(request().SerializeToString()),
        decode_json(json.loads(json_format.MessageToJson(request()))),
    ):
        assert [(span.scope, span.scope_version) for span in found.spans] == scopes
        assert not found.flaws


def test_dumps_of_sdks_carry_the_version() -> None:
    """JavaScript's and Python's SDKs write the scope at the span, each by its own name."""
    for name in ("instrumentationScope", "instrumentation_scope", "instrumentationLibrary"):
        found = decode_json({"spans": [IDS | {name: {"name": "ai", "version": "6.0"}}]})
        assert [(span.scope, span.scope_version) for span in found.spans] == [("ai", "6.0")]


def test_a_version_that_is_no_text_is_none() -> None:
    """A number or a list in its place counts as no version, and the span is read."""
    for version in (6, ["6"], None, {}):
        (span,) = decode_json(
            {"spans": [IDS | {"instrumentationScope": {"name": "ai", "version": version}}]}
        ).spans
        assert (span.scope, span.scope_version) == ("ai", "")
