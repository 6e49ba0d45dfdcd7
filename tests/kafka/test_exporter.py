"""An agent's spans straight into Kafka: every one of them there when the export succeeds, or it does not."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import alarm
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext
from tracline.examples.local_kafka import JAVA, LIBS
from tracline.schemas.otlp.decode import decode_protobuf
from tracline.schemas.span import Span
from tracline.stream.kafka.care.exporter import KafkaSpanExporter
from tracline.stream.kafka.librdkafka.admin import NewTopicLayout
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..support.brokers.reading import read
from .conftest import need_own

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"
TRACES = [17 * 31**number for number in range(20)]
PARTITION_OF = """
import org.apache.kafka.common.utils.Utils;
class PartitionOf {
    public static void main(String[] keys) {
        for (String key : keys) System.out.println(Utils.toPositive(Utils.murmur2(key.getBytes())) % 4);
    }
}
"""
"""The partition that Kafka's own client chooses for a key, in a topic of four partitions."""


def span(trace: int, number: int, size: int = 10) -> ReadableSpan:
    """An ended span of a trace, with an attribute of that size."""
    context = SpanContext(trace, number, is_remote=False)
    return ReadableSpan(f"{number}", context, attributes={"a": "x" * size}, start_time=1, end_time=2)


def arrived(settings: KafkaSettings) -> list[Span]:
    """The spans in the topic, as tracline reads them."""
    records = read(settings, settings.topic(Topic.SPANS))
    return [span for record in records for span in decode_protobuf(record.value).spans]


def test_what_the_sdk_ends_is_in_the_topic(topics: KafkaSettings) -> None:
    """The page's program, with this broker: spans arrive with the parents that they were given."""
    program = PAGE.read_text("utf-8").split("```python\n", 1)[1].split("```", 1)[0]
    names: dict[str, Any] = {}
    exec(program.replace('KafkaSettings(bootstrap_servers=("127.0.0.1:9092",))', repr(topics)), names)
    provider = names["provider"]
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("invoke_agent"), tracer.start_as_current_span("execute_tool"):
        pass
    provider.shutdown()
    spans = {span.name: span for span in arrived(topics)}
    assert set(spans) == {"invoke_agent", "execute_tool"}
    assert spans["execute_tool"].parent_id == spans["invoke_agent"].span_id


def test_a_trace_goes_where_other_clients_would_send_it(topics: KafkaSettings, tmp_path: Path) -> None:
    """The partition of each key is the one that Kafka's own client chooses, as a collector does."""
    need_own()
    exporter = KafkaSpanExporter(topics)
    assert exporter.export([span(trace, 1) for trace in TRACES]) is SpanExportResult.SUCCESS
    exporter.shutdown()
    chosen = {record.key.decode(): record.partition for record in read(topics, topics.topic(Topic.SPANS))}
    keys = [f"{trace:032x}" for trace in TRACES]
    assert sorted(chosen) == sorted(keys)
    (tmp_path / "PartitionOf.java").write_text(PARTITION_OF)
    java = ["java", *JAVA, "-cp", f"{LIBS}/*", str(tmp_path / "PartitionOf.java"), *keys]
    output = subprocess.run(java, capture_output=True, text=True, timeout=60, check=True).stdout
    assert [chosen[key] for key in keys] == [int(line) for line in output.split()]
    assert set(chosen.values()) == {0, 1, 2, 3}


def test_a_forked_process_exports_too(topics: KafkaSettings) -> None:
    """Also where it was forked off while its parent was exporting, as a server's workers are."""
    exporter = KafkaSpanExporter(topics, timeout_s=5)
    assert exporter.export([span(1, 1)]) is SpanExportResult.SUCCESS
    with exporter._lock:
        child = os.fork()
        if child == 0:
            done = False
            with suppress(BaseException):
                alarm(20)
                done = exporter.export([span(1, 2)]) is SpanExportResult.SUCCESS
            os._exit(0 if done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert exporter.export([span(1, 3)]) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert sorted(arrived_span.name for arrived_span in arrived(topics)) == ["1", "2", "3"]


def test_what_is_over_the_limit_is_split_or_left_out(topics: KafkaSettings) -> None:
    """A large trace comes in several records of one partition; a span that is too large is a FAILURE."""
    small = replace(topics, message_bytes_max=10_000)
    exporter = KafkaSpanExporter(small)
    assert exporter.export([span(5, n, 3_000) for n in range(1, 11)]) is SpanExportResult.SUCCESS
    records = read(topics, topics.topic(Topic.SPANS))
    assert len(records) > 3
    assert len({record.partition for record in records}) == 1
    assert exporter.export([span(6, 11), span(6, 12, 20_000)]) is SpanExportResult.FAILURE
    exporter.shutdown()
    assert sorted(int(arrived_span.name) for arrived_span in arrived(topics)) == list(range(1, 12))


def test_what_the_broker_refuses_is_a_failure(kafka: KafkaSettings) -> None:
    """A record over the topic's own limit is not acknowledged, the next ones are; no topic is made."""
    name = kafka.topic(Topic.SPANS)
    plain = replace(kafka, compression="none")
    exporter = KafkaSpanExporter(plain, timeout_s=2)
    assert exporter.export([span(1, 1)]) is SpanExportResult.FAILURE
    with administering(kafka) as admin:
        assert name not in admin.topics()
        assert not admin.create({name: NewTopicLayout(1, config={"max.message.bytes": "2000"})})
    assert exporter.export([span(1, 2)]) is SpanExportResult.SUCCESS
    assert exporter.export([span(1, 3, 5_000)]) is SpanExportResult.FAILURE
    assert exporter.export([span(1, 4)]) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert [arrived_span.name for arrived_span in arrived(kafka)] == ["2", "4"]
