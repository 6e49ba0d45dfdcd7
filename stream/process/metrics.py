"""Declaring metrics and showing them to Prometheus.

Every process declares its metrics in a module of its own (`serve_metrics.py`, `rekey_metrics.py`,
`monitor_metrics.py`, `archive_metrics.py`, `alert_metrics.py`). Metrics that several processes have are
declared once, in `shared_metrics.py` and `kafka_metrics.py`. Every counter exists from the start, at 0.

Label values are fixed words of tracline, rules, topics, and a limited number of scopes; nothing else that
came with a request. `docs/operations.md` lists the metrics, and a test compares it with the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

RULES_MAX = 1_000
"""Rules that have label values of their own; the verdicts of all others count together."""

PARTITIONS_MAX = 1_000
"""Partitions of all topics that the lag is shown of."""

SCOPES_MAX = 100
"""Instrumentation scopes that have label values of their own; the spans of all others count together."""

OTHER = "other"
"""The label value of everything beyond a limit."""


def counter(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Counter:
    """Return a new counter `tracline_NAME_total`."""
    return Counter(f"tracline_{name}_total", text, labels, registry=registry)


def gauge(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Gauge:
    """Return a new gauge `tracline_NAME`."""
    return Gauge(f"tracline_{name}", text, labels, registry=registry)


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """A metric's name as in queries, its type and its help text."""

    name: str
    type: str
    text: str


def describe_metrics(registry: CollectorRegistry) -> Iterator[MetricDescription]:
    """Yield all metrics of a registry, by name."""
    for metric in sorted(registry.collect(), key=lambda metric: metric.name):
        suffix = "_total" if metric.type == "counter" else ""
        yield MetricDescription(metric.name + suffix, metric.type, metric.documentation)


class HasRegistry(Protocol):
    """Metrics that a route can show."""

    @property
    def registry(self) -> CollectorRegistry:
        """Return the registry that holds them."""
        ...


def metrics_route(metrics: HasRegistry) -> Route:
    """Return the route `/metrics`."""

    async def show(_request: Request) -> Response:
        return Response(generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return Route("/metrics", show)
