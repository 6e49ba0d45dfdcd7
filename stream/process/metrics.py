"""Declaring metrics and showing them to Prometheus.

Every process declares its metrics in a module of its own (`serve_metrics.py`, `rekey_metrics.py`,
`monitor_metrics.py`, `archive_metrics.py`, `alert_metrics.py`). Metrics that several processes have are
declared once, in `shared_metrics.py` and `kafka_metrics.py`. Every counter exists from the start, at 0.

Label values are fixed words of tracline, rules, topics, and a limited number of scopes; nothing else that
came with a request. `docs/operations.md` lists the metrics, and a test compares it with the declarations.
"""

from __future__ import annotations

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


def metrics_route(registry: CollectorRegistry) -> Route:
    """Return the route `/metrics`."""

    async def show(_request: Request) -> Response:
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return Route("/metrics", show)
