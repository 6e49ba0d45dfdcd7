"""The dashboard's queries, asked of a real Prometheus that reads real metrics of every process.

The metrics are those that the processes declare, served on the ports that they have; only what they count is
made up. Prometheus runs with the configuration and the rules that ship.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from tracline.examples.local_kafka import free_port
from tracline.predict.drift.detectors import RuleDrift
from tracline.schemas.event import Kind
from tracline.schemas.otlp.signal import Signal
from tracline.schemas.verdict import Verdict
from tracline.stream.ingest.server.sockets import Address
from tracline.stream.kafka import alerts_process as alerts
from tracline.stream.kafka import archive_process as archive
from tracline.stream.kafka import rekey_process as rekey
from tracline.stream.kafka.health import serving
from tracline.stream.process.alert_metrics import AlertMetrics, DeliveryFailure
from tracline.stream.process.archive_metrics import ArchiveMetrics
from tracline.stream.process.kafka_metrics import KafkaMetrics, TransactionOutcome
from tracline.stream.process.monitor_metrics import MonitorMetrics
from tracline.stream.process.rekey_metrics import RekeyMetrics

from ..support.http.alertmanager import ROOT, need, until

pytestmark = pytest.mark.slow

DASHBOARD = ROOT / "docker/grafana/dashboards/tracline.json"
TOKEN = "correct-horse-battery-staple"
RATE_INTERVAL = "5s"
"""The value of Grafana's `$__rate_interval` at the scrape interval of this test."""


@dataclass
class Pipeline:
    """The metrics of one process of each kind."""

    rekey: RekeyMetrics
    monitor: MonitorMetrics
    archive: ArchiveMetrics
    alerts: AlertMetrics

    @property
    def ports(self) -> dict[str, KafkaMetrics]:
        """Return what is served, by the name of the process."""
        return {
            "rekey": self.rekey.kafka,
            "monitor": self.monitor.kafka,
            "archive": self.archive.kafka,
            "alerts": self.alerts.kafka,
        }

    def work(self, now_ns: int) -> None:
        """Count a little of everything."""
        for name, metrics in self.ports.items():
            metrics.read(f"{name}-in", 3, 300)
            metrics.transaction(TransactionOutcome.COMMITTED)
            metrics.lag({(f"{name}-in", 0): 4})
        for progress in (self.rekey.progress, self.monitor.progress, self.archive.progress):
            progress.watermark(now_ns - 5_000_000_000)
        self.alerts.progress.watermark(now_ns - 9_000_000_000)
        self.rekey.spans_in.inc(8)
        self.rekey.candidates.inc(8)
        self.rekey.progress.dead_letter("otlp-protobuf")
        self.rekey.spans.flawed(Signal.SPANS, 1, {"otlp-time": 1})
        self.rekey.spans.waiting.set(7)
        record = SimpleNamespace(pack="desk", rule="calm", verdict=Verdict.VIOLATED)
        outputs: Any = SimpleNamespace(
            events=[SimpleNamespace(kind=Kind.USER)] * 5, records=[record], statuses=[], late=0, repeats=0
        )
        self.monitor.judging.count(outputs)
        self.monitor.judging.delay.observe(0.7)
        self.monitor.judging.sessions_open.set(12)
        self.monitor.risk.set_drift({("desk", "calm"): RuleDrift(9.5, True)})
        self.monitor.state_bytes.set(40_000)
        self.archive.rows.inc(5)
        self.alerts.raised.inc()
        self.alerts.firing.set(1)
        self.alerts.attempt("webhook", 1)
        self.alerts.attempt("webhook", 0, DeliveryFailure.FAILED)


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    """Metrics as the processes make them."""
    return Pipeline(
        RekeyMetrics(["rekey-in"], ["rekey-out"], rekey.DEAD_LETTER_CODES),
        MonitorMetrics(["monitor-in"], ["monitor-out"], [("desk", "calm")]),
        ArchiveMetrics(["archive-in"], archive.DEAD_LETTER_CODES),
        AlertMetrics(["alerts-in"], ["alerts-out"], ["alertmanager", "webhook"], alerts.DEAD_LETTER_CODES),
    )


@pytest.fixture(scope="module")
def prometheus(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that reads them, through the gate, with the token."""
    path = need("prometheus", "prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as served:
        targets = {
            name: served.enter_context(serving(metrics, Address(token=TOKEN), lambda: True))
            for name, metrics in pipeline.ports.items()
        }
        port = free_port()
        config = configuration(folder, targets, port)
        command = [
            path, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log, stdout=log) as running:
            url = f"http://127.0.0.1:{port}"
            try:
                until("Prometheus answers", lambda: answers(url))
                yield url
            finally:
                running.kill()


def configuration(folder: Path, targets: dict[str, int], port: int) -> Path:
    """The configuration that ships, with these targets in place of containers, and no patience."""
    settings = yaml.safe_load((ROOT / "docker/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    settings["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    (folder / "rules").symlink_to(ROOT / "docker/prometheus/rules")
    token = folder / "token"
    token.write_text(TOKEN)
    del settings["alerting"]
    jobs: dict[str, dict[str, Any]] = {job["job_name"]: job for job in settings["scrape_configs"]}
    job = jobs["tracline"]
    job["authorization"]["credentials_file"] = str(token)
    names = job.pop("dns_sd_configs")[0]["names"]
    assert set(names) == set(targets)
    job["static_configs"] = [
        {"targets": [f"127.0.0.1:{number}"], "labels": {"__meta_dns_name": name}}
        for name, number in targets.items()
    ]
    jobs["prometheus"]["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    settings["scrape_configs"] = [job, jobs["prometheus"]]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(settings))
    return path


def answers(url: str) -> bool:
    """Return whether it is ready."""
    try:
        return httpx.get(f"{url}/-/ready").is_success
    except httpx.TransportError:
        return False


def queries() -> list[tuple[str, str]]:
    """Every query of the dashboard, with its panel."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]


def ask(url: str, query: str) -> list[Any]:
    """Return what the query gives now. Raises where Prometheus finds it at fault."""
    response = httpx.get(f"{url}/api/v1/query", params={"query": query})
    assert response.is_success, (query, response.text)
    return response.json()["data"]["result"]


def test_every_query_of_the_dashboard_has_an_answer(prometheus: str, pipeline: Pipeline) -> None:
    """None is an error or empty, once the processes have worked for some seconds."""
    asked = [(title, query.replace("$__rate_interval", RATE_INTERVAL)) for title, query in queries()]
    assert len(asked) > 30
    waiting = dict.fromkeys(query for _, query in asked)

    def all_answered() -> bool:
        pipeline.work(now(prometheus))
        for query in list(waiting):
            if ask(prometheus, query):
                del waiting[query]
        return not waiting

    try:
        until("every query has an answer", all_answered)
    finally:
        assert not list(waiting)


def test_numbers_are_what_was_counted(prometheus: str, pipeline: Pipeline) -> None:
    """The metrics of the processes arrive under the names of their kinds; so do the recorded series."""
    pipeline.work(now(prometheus))

    def value(query: str) -> float:
        found = ask(prometheus, query)
        return float(found[0]["value"][1]) if found else -1.0

    until("the lag adds up", lambda: value('tracline:kafka_lag:sum{process="monitor"}') == 4)
    until("open sessions are shown", lambda: value("sum(tracline_sessions_open)") == 12)
    # The watermark was set some time ago, 9 seconds behind.
    until("alerts are behind", lambda: value('tracline:watermark_lag_seconds:max{process="alerts"}') > 8)


def test_all_processes_are_read_with_the_token(prometheus: str) -> None:
    """All four targets are up: the ports ask for the token, and Prometheus shows it."""

    def are_up() -> bool:
        found = ask(prometheus, 'up{job="tracline"}')
        return {series["metric"]["process"]: series["value"][1] for series in found} == dict.fromkeys(
            ("rekey", "monitor", "archive", "alerts"), "1"
        )

    until("all are up", are_up)


def test_metrics_that_are_asked_for_are_declared(pipeline: Pipeline) -> None:
    """Dashboard, rules and their tests name no series of tracline that no process has."""
    pipeline.work(time.time_ns())
    declared = {
        sample.name
        for metrics in pipeline.ports.values()
        for metric in metrics.registry.collect()
        for sample in metric.samples
    }
    texts = [query for _, query in queries()]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "docker/prometheus").rglob("*.yml")]
    asked = {name for text in texts for name in re.findall(r"\btracline_[a-z_]+", text)}
    assert len(asked) > 25
    assert asked <= declared


def test_labels_that_are_asked_for_are_there(pipeline: Pipeline) -> None:
    """A query divides by, and selects by, only labels that the series has or that Prometheus adds."""
    pipeline.work(time.time_ns())
    given = {"job", "process", "instance", "le"}
    labels: dict[str, set[str]] = {}
    for metrics in pipeline.ports.values():
        for metric in metrics.registry.collect():
            for sample in metric.samples:
                labels.setdefault(sample.name, set(given)).update(sample.labels)
    recording = yaml.safe_load((ROOT / "docker/prometheus/rules/recording.yml").read_text(encoding="utf-8"))
    alerting = yaml.safe_load((ROOT / "docker/prometheus/rules/alerting.yml").read_text(encoding="utf-8"))
    rules = [
        rule for document in (recording, alerting) for group in document["groups"] for rule in group["rules"]
    ]
    looked = 0
    for query in [query for _, query in queries()] + [rule["expr"] for rule in rules]:
        names = re.findall(r"\btracline_[a-z_]+", query)
        asked = set(re.findall(r"(\w+)=~?\"", query))
        asked |= {
            label.strip() for listed in re.findall(r"\bby \(([^)]*)\)", query) for label in listed.split(",")
        }
        for name in names:
            looked += bool(asked)
            assert asked <= labels[name], query
    assert looked > 20


def now(url: str) -> int:
    """The time of day as Prometheus has it, in nanoseconds."""
    return int(float(ask(url, "vector(time())")[0]["value"][1]) * 1e9)
