"""The page on running the pipeline names every metric, alert and port."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry
from tracline.stream.alerts.alert import decode, record
from tracline.stream.process.alert_metrics import AlertMetrics
from tracline.stream.process.archive_metrics import ArchiveMetrics
from tracline.stream.process.monitor_metrics import MonitorMetrics
from tracline.stream.process.rekey_metrics import RekeyMetrics
from tracline.stream.process.serve_metrics import ServeMetrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
REGISTRIES: dict[str, CollectorRegistry] = {
    "serve": ServeMetrics([("pack", "rule")]).registry,
    "rekey": RekeyMetrics(["in"], ["out"]).registry,
    "monitor": MonitorMetrics(["in"], ["out"], [("pack", "rule")]).registry,
    "archive": ArchiveMetrics(["in"]).registry,
    "alerts": AlertMetrics(["in"], ["out"], ["webhook"]).registry,
}


def described(registry: CollectorRegistry) -> list[tuple[str, str, str]]:
    """Return the name as in queries, the type and the text of every metric."""
    return [
        (metric.name + ("_total" if metric.type == "counter" else ""), metric.type, metric.documentation)
        for metric in registry.collect()
    ]


def test_every_metric_is_on_the_page() -> None:
    """The table has the names, types and texts that are declared, and which processes have them."""
    declared: dict[tuple[str, str, str], list[str]] = {}
    for process, registry in REGISTRIES.items():
        for metric in described(registry):
            declared.setdefault(metric, []).append(process)
    rows = re.findall(r"^\| `(tracline_\w+)` \| (\w+) \| ([\w, ]+) \| (.+) \|$", PAGE, re.MULTILINE)
    listed = {(name, type_, text): processes.split(", ") for name, type_, processes, text in rows}
    assert len(listed) == len(rows)
    assert listed == declared


def test_a_name_means_the_same_in_every_process() -> None:
    """A metric of two processes has the same type and the same text in both."""
    all_of_them = {metric for registry in REGISTRIES.values() for metric in described(registry)}
    assert len({name for name, _, _ in all_of_them}) == len(all_of_them)


@pytest.mark.parametrize("process", REGISTRIES)
def test_counters_of_every_process_begin_at_nothing(process: str) -> None:
    """Each counter starts at 0 with the values of its labels, so that a first increase shows."""
    for metric in REGISTRIES[process].collect():
        if metric.type == "counter":
            totals = [sample.value for sample in metric.samples if sample.name.endswith("_total")]
            # A process that sends nothing has no topic to count under.
            assert totals or metric.name == "tracline_kafka_messages_sent", metric.name
            assert set(totals) <= {0.0}, metric.name


def test_every_alert_is_on_the_page() -> None:
    """The table has the alerts of the shipped rules, and no others."""
    rules = yaml.safe_load((ROOT / "docker/prometheus/rules/alerting.yml").read_text("utf-8"))
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert re.findall(r"^\| `(Tracline\w+)` \|", PAGE, re.MULTILINE) == alerts


def test_the_request_of_a_webhook_is_as_shown() -> None:
    """The page's example decodes as an alert and has exactly its fields."""
    (text,) = re.findall(r"```json\n(.+?)```", PAGE, re.DOTALL)
    (shown,) = json.loads(text)["alerts"]
    alert = decode(json.dumps(shown).encode())
    assert list(record(alert)) == list(shown)
    assert record(alert) == shown


def test_ports_on_the_page_are_those_of_the_compose_file() -> None:
    """The compose file publishes each port that the page names."""
    compose = yaml.safe_load((ROOT / "docker/compose.yaml").read_text("utf-8"))
    published = {
        port.split(":")[1] for service in compose["services"].values() for port in service.get("ports", [])
    }
    section = PAGE[PAGE.index("## Everything at once") :]
    assert set(re.findall(r"`(?:127\.0\.0\.1)?:(\d+)`", section)) == published
