"""OTLP's other signals, sent by the SDK's exporters as they are set up for all signals at once."""

from __future__ import annotations

import gzip

import grpc
import httpx
import pytest
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)
from tracline.stream.limits import Limits

from .receiving import WAIT_S, Full, Kept, Running, running

pytestmark = pytest.mark.slow

TOKEN = "correct-horse-battery-staple"
DROPPED = "tracline_receiver_metrics_dropped_total"
METRICS_SERVICE = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


def measured() -> MetricsData:
    """What an SDK has measured of an agent."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    provider.get_meter("desk").create_histogram("gen_ai.client.token.usage").record(17)
    data = reader.get_metrics_data()
    provider.shutdown()
    assert data is not None
    return data


def metric_exporter(server: Running, transport: str, **headers: str) -> MetricExporter:
    """The SDK's exporter of metrics."""
    if transport == "http":
        return OTLPMetricExporter(f"{server.url}/v1/metrics", headers=headers)
    endpoint = f"http://127.0.0.1:{server.grpc_port}"
    return GrpcMetricExporter(endpoint, insecure=True, headers=tuple(headers.items()))


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_metrics_are_acknowledged_and_dropped(transport: str) -> None:
    """An SDK's export of metrics succeeds at the first attempt; nothing is kept, and it is counted."""
    kept = Kept()
    with running(kept) as server:
        exporter = metric_exporter(server, transport)
        assert exporter.export(measured()) is MetricExportResult.SUCCESS
        exporter.shutdown()
        assert server.counts(DROPPED) == {(transport, "protobuf"): 1}
        for name in ("requests", "spans", "bytes", "refused"):
            assert server.counts(f"tracline_receiver_{name}_total") == {}
    assert kept.requests == []


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_metrics_are_answered_in_their_encoding(encoding: str) -> None:
    """The answer is an empty success in the encoding of the request, whatever its coding."""
    types = {"protobuf": "application/x-protobuf", "json": "application/json"}
    empty = {"protobuf": b"", "json": b"{}"}
    with running() as server:
        headers = {"Content-Type": types[encoding], "Content-Encoding": "gzip"}
        body = gzip.compress(b'{"resourceMetrics": []}' if encoding == "json" else b"")
        response = httpx.post(f"{server.url}/v1/metrics", content=body, headers=headers)
        assert (response.status_code, response.content) == (200, empty[encoding])
        assert response.headers["content-type"] == types[encoding]
        assert server.counts(DROPPED) == {("http", encoding): 1}


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_metrics_do_not_wait_for_the_disk(transport: str) -> None:
    """While no spans can be kept metrics are still acknowledged: there is nothing to keep."""
    with running(Full("disk", 1.0)) as server:
        exporter = metric_exporter(server, transport)
        assert exporter.export(measured()) is MetricExportResult.SUCCESS
        exporter.shutdown()


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_metrics_need_the_token(transport: str) -> None:
    """Where a token is asked for, metrics without it are refused like spans."""
    with running(bound="0.0.0.0", token=TOKEN) as server:
        for headers, result in (
            ({}, MetricExportResult.FAILURE),
            ({"authorization": f"Bearer {TOKEN}"}, MetricExportResult.SUCCESS),
        ):
            exporter = metric_exporter(server, transport, **headers)
            assert exporter.export(measured()) is result
            exporter.shutdown()
        assert server.counts("tracline_receiver_refused_total") == {("token",): 1}
        assert server.counts(DROPPED) == {(transport, "protobuf"): 1}


def test_metrics_are_limited_like_spans() -> None:
    """A request of metrics beyond the limit of bytes is refused, over HTTP and over gRPC."""
    with running(limits=Limits(packed_bytes_max=1_000, unpacked_bytes_max=1_000)) as server:
        headers = {"Content-Type": "application/x-protobuf"}
        large = bytes(1_001)
        response = httpx.post(f"{server.url}/v1/metrics", content=large, headers=headers)
        assert response.status_code == 413
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            call = channel.unary_unary(METRICS_SERVICE, None, ExportMetricsServiceResponse.FromString)
            with pytest.raises(grpc.RpcError) as caught:
                call(large, timeout=WAIT_S)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert call(b"", timeout=WAIT_S) == ExportMetricsServiceResponse()
        assert server.counts(DROPPED) == {("grpc", "protobuf"): 1}
