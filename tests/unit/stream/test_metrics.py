"""The metrics of `tracline serve`."""

from __future__ import annotations

import re

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tracline.schemas.event import Event, Kind
from tracline.schemas.instrumentations.census import SpanCensus
from tracline.schemas.otlp.decoded import CODES
from tracline.schemas.otlp.signal import Signal
from tracline.schemas.records.verdict_record import VerdictRecord
from tracline.schemas.time import rfc3339
from tracline.schemas.verdict import Severity, Verdict
from tracline.stream.ingest.rejections import Reason
from tracline.stream.process.alert_metrics import AlertMetrics
from tracline.stream.process.metrics import OTHER, RULES_MAX, SCOPES_MAX
from tracline.stream.process.rekey_metrics import RekeyMetrics
from tracline.stream.process.serve_metrics import ServeMetrics
from tracline.stream.process.shared_metrics import GIVEN
from tracline.stream.stages.judge import Outputs

from ...support.http.receiving import running, values


def text_of(metrics: ServeMetrics) -> str:
    """All metrics as Prometheus reads them."""
    return generate_latest(metrics.registry).decode()


def test_every_counter_is_there_from_the_start() -> None:
    """All counters, with all values that their labels can have, begin at 0; so a first increase is seen."""
    metrics = list(text_string_to_metric_families(text_of(ServeMetrics([("desk", "calm")]))))
    counters = {metric.name: metric for metric in metrics if metric.type == "counter"}
    for metric in counters.values():
        totals = [sample for sample in metric.samples if sample.name.endswith("_total")]
        assert totals, metric.name
        assert {sample.value for sample in totals} == {0.0}
    labels = {
        "tracline_receiver_refused": {(reason,) for reason in Reason},
        "tracline_receiver_flaws": {(code,) for code in (*CODES, OTHER)},
        "tracline_dead_letters": {(code,) for code in (*CODES, OTHER)},
        "tracline_events_judged": {(kind,) for kind in Kind},
        "tracline_verdicts": {("desk", "calm", verdict) for verdict in GIVEN},
    }
    for name, expected in labels.items():
        samples = [sample for sample in counters[name].samples if sample.name.endswith("_total")]
        assert {tuple(sample.labels.values()) for sample in samples} == expected


def record(pack: str, rule: str, verdict: Verdict) -> VerdictRecord:
    """A verdict of a rule."""
    time = rfc3339(0)
    return VerdictRecord(
        agent=None, event_id="e", history=False, id="v", late=False, occurrence=time, pack=pack, rule=rule,
        rule_digest="0", seq=1, session_id="s", severity=Severity.LOW, slice=None, time=time, verdict=verdict,
    )  # fmt: skip


def test_names_describe_their_metrics() -> None:
    """Every metric has the prefix, a text that ends in a full stop, and a unit where it has one."""
    metrics = list(text_string_to_metric_families(text_of(ServeMetrics())))
    assert len(metrics) > 15
    for metric in metrics:
        assert re.fullmatch(r"tracline_[a-z_]+", metric.name)
        assert metric.documentation.endswith(".")
        assert metric.type in {"counter", "gauge", "histogram"}


def test_what_happens_is_counted() -> None:
    """Events, verdicts, dead letters and the watermark stand under their names."""
    metrics = ServeMetrics([("desk", "calm")])
    event = Event("s", 0, 0, 1, Kind.USER)
    metrics.judging.count(Outputs([event, event], records=[record("desk", "calm", Verdict.VIOLATED)]))
    metrics.progress.dead_letter("otlp-protobuf", 3)
    metrics.progress.watermark(1_500_000_000)
    metrics.judging.delay.observe(0.3)
    text = text_of(metrics)
    assert values(text, "tracline_events_judged_total") == {("user",): 2}
    assert values(text, "tracline_verdicts_total") == {("calm", "desk", "violated"): 1}
    assert values(text, "tracline_dead_letters_total") == {("otlp-protobuf",): 3}
    assert values(text, "tracline_watermark_timestamp_seconds") == {(): 1.5}
    assert values(text, "tracline_verdict_delay_seconds_count") == {(): 1}


@pytest.mark.slow
def test_label_values_are_limited() -> None:
    """Codes that are not in the table, and rules beyond the limit, are counted together."""
    metrics = ServeMetrics(("desk", f"rule-{number}") for number in range(RULES_MAX + 50))
    metrics.progress.dead_letter("something new")
    metrics.spans.flawed(Signal.SPANS, 0, {"something new": 2})
    others = [record("never", "seen", Verdict.UNMET)] * 2
    metrics.judging.count(Outputs(records=[record("desk", f"rule-{RULES_MAX + 1}", Verdict.UNMET), *others]))
    text = text_of(metrics)
    assert values(text, "tracline_dead_letters_total") == {(OTHER,): 1}
    assert values(text, "tracline_receiver_flaws_total") == {(OTHER,): 2}
    assert values(text, "tracline_verdicts_total") == {(OTHER, OTHER, "unmet"): 3}


def test_scopes_of_spans_are_limited() -> None:
    """So many have label values of their own, cleaned; further ones are counted together."""
    metrics = ServeMetrics()
    census = SpanCensus()
    for number in range(SCOPES_MAX + 5):
        census.count(f"\x1b{number}", 3, 1)
    metrics.spans.count_spans(census)
    metrics.spans.count_spans(census)
    text = text_of(metrics)
    read, unread = (values(text, f"tracline_spans_{name}_total") for name in ("read", "unread"))
    assert len(read) == len(unread) == SCOPES_MAX + 1
    assert (read[OTHER,], unread[OTHER,]) == (10, 20)
    assert read["\N{REPLACEMENT CHARACTER}7",] == 2


def gauges(registry: CollectorRegistry) -> dict[str, float]:
    """The gauges that are not 0, with the values of their labels."""
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for metric in registry.collect()
        if metric.type == "gauge"
        for sample in metric.samples
        if sample.value
    }


def test_metrics_of_a_process_without_work_are_gone() -> None:
    """Gauges of work that another process goes on with neither grow old nor count twice; counters stay."""
    rekey = RekeyMetrics(["spans"], ["events"])
    alerts = AlertMetrics(["verdicts"], ["alerts"], ["webhook"])
    for metrics in (rekey, alerts):
        metrics.kafka.lag({("in", 0): 7})
        metrics.progress.watermark(5_000_000_000)
    rekey.spans.waiting.set(1)
    rekey.traces_held.set(2)
    alerts.firing.set(3)
    alerts.series.set(4)
    alerts.pending("webhook", 5)
    alerts.raised.inc()
    assert [len(gauges(metrics.registry)) for metrics in (rekey, alerts)] == [4, 5]
    for metrics in (rekey, alerts):
        metrics.clear()
        assert gauges(metrics.registry) == {}
    assert alerts.registry.get_sample_value("tracline_alerts_raised_total") == 1


def test_prometheus_reads_them() -> None:
    """`/metrics` answers in Prometheus' own content type, and two processes' metrics do not mix."""
    with running() as server, httpx.Client() as client:
        response = client.get(f"{server.url}/metrics")
        assert response.headers["content-type"].startswith("text/plain; version=")
        assert response.content == server.metrics.text().encode()
    ServeMetrics()
