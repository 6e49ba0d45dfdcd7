"""OTLP's signals: the paths, services and answers of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ...schemas.otlp.signal import Signal

_COLLECTOR = "opentelemetry.proto.collector"

Response: TypeAlias = ExportTraceServiceResponse | ExportLogsServiceResponse | ExportMetricsServiceResponse
"""The answer to an accepted request."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of a signal: paths over HTTP, a service over gRPC.

    `items` names what its requests hold, in the plural; `response` is the type of their answer, and
    `rejected` its field for the number of rejected items.
    """

    signal: Signal
    paths: tuple[str, ...]
    service: str
    items: str
    response: type[Response]
    rejected: str


ENDPOINTS = (
    Endpoint(
        Signal.SPANS,
        # The second is the path to which Langfuse's SDKs send the same requests.
        ("/v1/traces", "/api/public/otel/v1/traces"),
        f"{_COLLECTOR}.trace.v1.TraceService",
        "spans",
        ExportTraceServiceResponse,
        "rejected_spans",
    ),
    Endpoint(
        Signal.LOGS,
        ("/v1/logs",),
        f"{_COLLECTOR}.logs.v1.LogsService",
        "log records",
        ExportLogsServiceResponse,
        "rejected_log_records",
    ),
    Endpoint(
        Signal.METRICS,
        ("/v1/metrics",),
        f"{_COLLECTOR}.metrics.v1.MetricsService",
        "metrics",
        ExportMetricsServiceResponse,
        "rejected_data_points",
    ),
)
OTHER_PATHS = ("/v1development/profiles",)
OTHER_SERVICES = (f"{_COLLECTOR}.profiles.v1development.ProfilesService",)
"""The endpoints of unsupported signals, whose requests are refused."""
REFUSED = f"only {', '.join(endpoint.items for endpoint in ENDPOINTS)} are supported here"
