"""The port of metrics and health that every process of the Kafka pipeline has."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack

import httpx
import pytest
from prometheus_client import CollectorRegistry
from tracline.stream.error import StreamError
from tracline.stream.ingest.server.sockets import Address
from tracline.stream.kafka.health import CONNECTIONS_MAX, serving
from tracline.stream.process.kafka_metrics import KafkaMetrics, TransactionOutcome

from ...support.http.receiving import values

TOKEN = "correct-horse-battery-staple"


def metrics() -> KafkaMetrics:
    """Those of a process that reads one topic and sends to another."""
    return KafkaMetrics(CollectorRegistry(), ["spans"], ["events"])


def test_metrics_are_served() -> None:
    """The counts stand under `/metrics`, as Prometheus reads them."""
    counted = metrics()
    counted.transaction(TransactionOutcome.COMMITTED)
    with serving(counted, Address(), lambda: True) as port:
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    expected = {("committed",): 1}
    assert values(answer.text, "tracline_kafka_transactions_total") == expected


@pytest.mark.slow
def test_readiness_follows_the_process() -> None:
    """`/readyz` is 503 until the process is ready; `/healthz` is 200 all the while."""
    ready: list[bool] = []
    with serving(metrics(), Address(), lambda: bool(ready)) as port:
        url = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{url}/readyz").status_code == 503
        assert httpx.get(f"{url}/healthz").status_code == 200
        ready.append(True)
        assert httpx.get(f"{url}/readyz").status_code == 200


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "http://127.0.0.1:9464"), ("::1", "http://[::1]:9464")]
)
def test_an_address_is_shown_as_a_browser_can_open_it(host: str, url: str) -> None:
    """An IPv6 address is in brackets, and a free port is the one that was taken; the token is left out."""
    address = Address(host, 0, TOKEN)
    assert address.url(9464) == url
    assert TOKEN not in repr(address)


@pytest.mark.slow
def test_pages_of_others_are_refused() -> None:
    """A request that names another host is refused, and counted."""
    counted = metrics()
    with serving(counted, Address(), lambda: True) as port:
        url = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{url}/metrics", headers={"Host": "elsewhere.example"}).status_code == 421
        text = httpx.get(f"{url}/metrics").text
    assert values(text, "tracline_health_refused_total") == {("host",): 1}


@pytest.mark.slow
def test_others_need_the_token() -> None:
    """With a token, metrics are for those who show it; the questions of health are for all."""
    with serving(metrics(), Address("0.0.0.0", 0, TOKEN), lambda: True) as port:
        url = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{url}/metrics").status_code == 401
        assert httpx.get(f"{url}/readyz").status_code == 200
        shown = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"{url}/metrics", headers=shown).status_code == 200
    with pytest.raises(StreamError) as caught, serving(metrics(), Address("0.0.0.0"), lambda: True):
        pass
    assert caught.value.code == "TRL711"


def test_a_taken_port_is_reported() -> None:
    """If another process listens the error names the address, and nothing is left running."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(StreamError, match=f"127.0.0.1:{port}") as caught,
            serving(metrics(), Address(port=port), lambda: True),
        ):
            pass
    assert caught.value.code == "TRL713"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6 beside IPv4")
def test_all_addresses_are_those_of_ipv4_too() -> None:
    """A port on `::` answers at 127.0.0.1."""
    with serving(metrics(), Address("::", 0, TOKEN), lambda: True) as port:
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200


def test_the_port_is_free_again_afterwards() -> None:
    """When the block ends nobody listens any more."""
    with serving(metrics(), Address(), lambda: True) as port:
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/healthz")


PROCESS = """
import sys, threading
from prometheus_client import CollectorRegistry
from tracline.stream.kafka.health import serving
from tracline.stream.ingest.server.sockets import Address
from tracline.stream.process.kafka_metrics import KafkaMetrics

metrics = KafkaMetrics(CollectorRegistry(), ["spans"], ["events"])
with serving(metrics, Address("0.0.0.0", 0, sys.argv[1]), lambda: True) as port:
    print(port, flush=True)
    sys.stdin.read()
"""
FILES = 48
"""Files that the process may open: fewer than the connections that its port may have."""
SILENT = 300


@pytest.mark.slow
@pytest.mark.parametrize("files", [FILES, 1_024])
def test_probes_are_answered_while_others_hold_connections(files: int) -> None:
    """A process under silent connections without end, more than it has files, answers probes and its owner.

    What it logs meanwhile is a line at most.
    """
    line = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", sys.executable, "-c", PROCESS, TOKEN]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(line, text=True, **pipes) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        url = f"http://127.0.0.1:{port}"
        with ExitStack() as held:
            for _ in range(SILENT):
                held.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            for path in ("healthz", "readyz"):
                assert httpx.get(f"{url}/{path}", timeout=8).status_code == 200
            text = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=8).text
        closed = values(text, "tracline_connections_closed_total")
        assert closed["evicted", "http"] > SILENT - CONNECTIONS_MAX
        _, output = process.communicate("", 20)
        assert process.returncode == 0
    assert output.count("\n") <= 1, output
    assert ("ulimit -n" in output) is (files == FILES)
