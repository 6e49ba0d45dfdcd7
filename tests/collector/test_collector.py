"""A real OpenTelemetry collector with the configuration that ships, between agents and the pipeline.

`make test-collector` builds it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tracline.examples.local_kafka import free_port
from tracline.rules.packs.load import shipped_packs
from tracline.schemas.otlp.decode import decode_protobuf
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.topics import Topic

from ..kafka.judging import Listener
from ..kafka.reading import read
from ..kafka.rekeying import batches, candidates_of, letters, make_topics, process, until
from ..kafka.stage import TIMEOUT_S, WAIT_S, running
from ..kafka.talking import LIVE, listening, resolved, talk
from ..serve.live import audited

pytestmark = pytest.mark.collector
ROOT = Path(__file__).parents[2]
COLLECTOR = ROOT / ".collector" / "otelcol"
SHIPPED = ROOT / "docker" / "collector.yaml"
SESSIONS = 16


def validate(*files: Path) -> subprocess.CompletedProcess[str]:
    """Return the collector's output for a configuration."""
    words = [f"--config={file}" for file in files]
    return subprocess.run([COLLECTOR, "validate", *words], capture_output=True, text=True, check=False)


def write(folder: Path, configuration: Mapping[str, Any]) -> Path:
    """A configuration that is laid over the one that ships."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "here.yaml"
    file.write_text(yaml.safe_dump(dict(configuration)))
    return file


@contextmanager
def collecting(kafka: KafkaSettings, folder: Path) -> Iterator[tuple[int, Path]]:
    """Run the collector as it ships but for addresses and topics; yield its port and a file of its spans.

    When the block ends it was asked to stop, and has sent all that it took.
    """
    port, file, log = free_port(), folder / "spans.jsonl", folder / "collector.log"
    grpc, http = ({"endpoint": f"127.0.0.1:{endpoint_port}"} for endpoint_port in (free_port(), port))
    here = {
        "receivers": {"otlp": {"protocols": {"grpc": grpc, "http": http}}},
        "exporters": {
            "kafka": {
                "traces": {"topic": kafka.topic(Topic.SPANS)},
                "logs": {"topic": kafka.topic(Topic.LOGS)},
            },
            "file": {"path": str(file)},
        },
        "service": {
            "pipelines": {"traces": {"exporters": ["kafka", "file"]}},
            "telemetry": {"metrics": {"level": "none", "readers": []}},
        },
    }
    command = [COLLECTOR, f"--config={SHIPPED}", f"--config={write(folder, here)}"]
    with log.open("wb") as output:
        run = subprocess.Popen(
            command,
            env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": ",".join(kafka.bootstrap_servers)},
            stdout=output,
            stderr=output,
        )
    try:
        listening(run, port, log.read_text)
        yield port, file
        run.send_signal(signal.SIGTERM)
        assert run.wait(WAIT_S) == 0, log.read_text()
    finally:
        run.kill()
        run.wait(WAIT_S)


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of sessions that every process has."""
    for name in ("lateness_s", "hold_s", "tick_s"):
        monkeypatch.setenv(f"TRACLINE_SESSIONS_{name.upper()}", str(getattr(LIVE, name)))


def test_the_shipped_configuration_is_valid(tmp_path: Path) -> None:
    """The collector takes it as it is, and would not take an option that its exporter does not have."""
    assert validate(SHIPPED).returncode == 0, validate(SHIPPED).stderr
    wrong = write(tmp_path, {"exporters": {"kafka": {"partition_traces_by_name": True}}})
    refused = validate(SHIPPED, wrong)
    assert refused.returncode != 0
    assert "partition_traces_by_name" in refused.stderr


def test_an_agents_spans_come_through_to_their_verdicts(
    kafka: KafkaSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bot, collector, Kafka, rekey, monitor: the verdicts are those of an audit of the collector's input.

    The violations that they report are those that the bot reports to have planted.
    """
    make_topics(kafka)
    with collecting(kafka, tmp_path) as (port, file):
        broken = run_bot(f"http://127.0.0.1:{port}")
    packs = [str(pack) for pack in shipped_packs()]
    records = audited(file, packs, tmp_path / "bundle")
    ids = Counter(records.keys())
    with (
        running(kafka, tmp_path / "rekey.log", "rekey", "--timeout-s", TIMEOUT_S) as rekey,
        running(
            kafka, tmp_path / "monitor.log", "monitor", "--timeout-s", TIMEOUT_S, "--rules", *packs
        ) as monitor,
        closing(Listener(kafka)) as listener,
    ):
        received = listener.until(lambda received: received.ids.keys() >= ids.keys())
        assert monitor.stop() == 0, monitor.log.read_text()
        assert rekey.stop() == 0, rekey.log.read_text()
        received = listener.until(lambda _: False, lambda: False)
    assert received.ids == ids
    assert not received.letters
    found = [record for record in records.values() if record["verdict"] in ("violated", "unmet")]
    assert {(verdict["session_id"], verdict["pack"], verdict["rule"]) for verdict in found} == broken
    assert len(broken) > 10
    with capsys.disabled():
        print(f"\n{len(ids)} verdicts, {len(broken)} rules broken in {SESSIONS} sessions")


def run_bot(url: str) -> set[tuple[str, str, str]]:
    """Have the instrumented bot send its spans there; the rules it broke: session, pack, rule."""
    line = [sys.executable, "-m", "tracline.examples.instrumented_bot", "--endpoint", url]
    line += ["--sessions", str(SESSIONS), "--seed", "11", "--break", "0.9"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=True)
    broken = [json.loads(text) for text in done.stdout.splitlines()]
    return {(broken_rule["session_id"], broken_rule["pack"], broken_rule["rule"]) for broken_rule in broken}


def test_two_collectors_send_a_trace_to_one_partition(
    kafka: KafkaSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spans that go to them turn about are resolved as if all had come together."""
    make_topics(kafka)
    with (
        collecting(kafka, tmp_path / "one") as (first, _),
        collecting(kafka, tmp_path / "two") as (second, _),
    ):
        sent = talk([first, second], sessions=SESSIONS, seed=12)
    expected = resolved(sent)
    places: defaultdict[str, set[int]] = defaultdict(set)
    spans: Counter[str] = Counter()
    records = read(kafka, kafka.topic(Topic.SPANS))
    for record in records:
        for span in decode_protobuf(record.value).spans:
            assert record.key.decode() == span.trace_id
            places[span.trace_id].add(record.partition)
            spans[span.span_id] += 1
    assert spans == Counter(span.span_id for span in decode_protobuf(sent).spans)
    assert {len(partitions) for partitions in places.values()} == {1}
    assert len(records) > len(places), "no trace came from both"
    assert len(set().union(*places.values())) > 1
    with process(kafka, sessions=LIVE) as rekey:
        until("all is resolved", lambda: candidates_of(batches(kafka)).total() >= expected.total())
        rekey.process.terminate()
        assert rekey.ended() == 0, rekey.lines
    assert candidates_of(batches(kafka)) == expected
    assert not letters(kafka)
    with capsys.disabled():
        print(f"\n{spans.total()} spans of {len(places)} traces, {expected.total()} candidates")
