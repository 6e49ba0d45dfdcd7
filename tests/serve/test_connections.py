"""`tracline serve` while others hold connections, send slowly, or send nothing: a real process."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import grpc
import httpx
import pytest
from tracline.stream.ingest.endpoint import ENDPOINTS
from tracline.stream.ingest.limits import ReceiverLimits
from tracline.stream.ingest.request import Encoding
from tracline.stream.ingest.server.open_files import FEEDS_MAX, REQUESTS_MAX, divide_files
from tracline.stream.serve.store import FILE

from .live import wire
from .serving import PROTOBUF, WAIT_S, Serving, free_port, running
from .test_serve import span

pytestmark = pytest.mark.slow

TOKEN = "correct-horse-battery-staple"
OWNER = {"Authorization": f"Bearer {TOKEN}"}
FILES = 192
"""Files that the process may open here: few, so that few connections are more."""
PROMPT_S = 10.0
"""The time that an answer may take here: less than the limits of a head and of a body."""
LOG_CHARS_MAX = 1_000
POST = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
BEGUN = POST + f"Authorization: {OWNER['Authorization']}\r\nContent-Length: 1000\r\n\r\nx".encode()
"""A request of the owner whose body has begun."""
FEED = f"GET /feed HTTP/1.1\r\nHost: localhost\r\nAuthorization: {OWNER['Authorization']}\r\n\r\n".encode()
BODY = wire([span()], Encoding.PROTOBUF)

ATTACKS: dict[str, bytes] = {
    "silent": b"",
    "a head byte by byte": b"P",
    "idle after an answer": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a body without the token": POST + b"Content-Length: 1000\r\n\r\nx",
    "a body with a wrong token": POST + b"Authorization: Bearer no\r\nContent-Length: 1000\r\n\r\nx",
    "chunks without the token": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
}
"""The bytes that a stranger sends before it sends no more."""
GRPC_ATTACKS: dict[str, bytes] = {
    "silent": b"",
    "half a preface": b"PRI * HTTP/2.0",
    "no request": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0",
}


@contextmanager
def holding(port: int, count: int, data: bytes) -> Iterator[list[socket.socket]]:
    """A number of connections that have each sent so many bytes, and stay."""
    with ExitStack() as held:
        opened: list[socket.socket] = []
        for _ in range(count):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
            opened.append(connection)
            with suppress(ConnectionError):
                connection.sendall(data)
        yield opened


def answers(serving: Serving) -> Counter[int]:
    """The status codes of what the owner asks: pages, metrics, health, and to take a request of spans."""
    codes: Counter[int] = Counter()
    with httpx.Client(base_url=serving.url, headers=OWNER, timeout=PROMPT_S, verify=False) as client:
        for path in ("/", "/metrics", "/healthz", "/readyz"):
            codes[client.get(path).status_code] += 1
        codes[client.post("/v1/traces", content=BODY, headers=PROTOBUF).status_code] += 1
    return codes


def called(port: int) -> None:
    """Have a request of spans taken over gRPC."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(f"/{ENDPOINTS[0].service}/Export")
        assert call(BODY, timeout=PROMPT_S, metadata=(("authorization", OWNER["Authorization"]),)) == b""


@contextmanager
def owned(folder: Path, pack: Path, grpc_port: int, files: int | None = FILES) -> Iterator[Serving]:
    """A process that asks for a token and may open few files."""
    more = ("--grpc-port", str(grpc_port), "--token", TOKEN)
    with running(folder, pack, *more, sessions={"tick_s": 3_600}, files=files) as serving:
        yield serving


@pytest.fixture(scope="module")
def grpc_port() -> int:
    """The port of gRPC of `serving`."""
    return free_port()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, pack: Path, grpc_port: int) -> Iterator[Serving]:
    """A process that all tests use which leave it as it was."""
    with owned(tmp_path_factory.mktemp("served"), pack, grpc_port) as serving:
        yield serving


def test_strangers_cannot_keep_the_owner_out(tmp_path: Path, pack: Path) -> None:
    """While more connections than files are held, whatever they sent, the owner is answered on both ports.

    The log stays small, and the process works on and ends as it should.
    """
    grpc_port = free_port()
    with owned(tmp_path, pack, grpc_port) as serving:
        for attack in ATTACKS.values():
            with holding(serving.port, FILES + 50, attack):
                assert answers(serving) == {200: 5}
                called(grpc_port)
        for attack in GRPC_ATTACKS.values():
            with holding(grpc_port, FILES + 50, attack):
                called(grpc_port)
                assert answers(serving) == {200: 5}
        assert answers(serving) == {200: 5}
        assert serving.stop() == 0
        assert len(serving.log) < LOG_CHARS_MAX, serving.log


def test_strangers_who_come_without_end_cannot_keep_the_owner_out(serving: Serving, grpc_port: int) -> None:
    """While new connections come as fast as one sender can make them, the owner is answered."""
    over = threading.Event()

    def flood() -> None:
        held: list[socket.socket] = []
        while not over.is_set():
            held.append(socket.create_connection(("127.0.0.1", serving.port), WAIT_S))
            if len(held) > 2 * FILES:
                held.pop(0).close()
        for connection in held:
            connection.close()

    with ThreadPoolExecutor() as pool:
        flooding = pool.submit(flood)
        try:
            assert answers(serving) == {200: 5}
            called(grpc_port)
        finally:
            over.set()
        flooding.result(WAIT_S)
    assert len(serving.log) < LOG_CHARS_MAX, serving.log


def test_a_silent_connection_is_closed(serving: Serving, grpc_port: int) -> None:
    """One that sends no whole head of a request is closed after a while, though bytes come; it is counted."""
    with holding(serving.port, 1, b"GET /") as http, holding(grpc_port, 1, b"PRI") as calls:
        calls[0].settimeout(WAIT_S)
        http[0].settimeout(0.5)
        until = time.monotonic() + WAIT_S
        while not ended(http[0]) and time.monotonic() < until:
            with suppress(ConnectionError):
                http[0].sendall(b"x")
        assert ended(http[0])
        assert ended(calls[0])
    text = httpx.get(f"{serving.url}/metrics", headers=OWNER).text
    for transport in ("http", "grpc"):
        assert f'tracline_connections_closed_total{{reason="silent",transport="{transport}"}} 1.0' in text


def ended(connection: socket.socket) -> bool:
    """Return whether the other side has closed the connection without a word."""
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_there_are_only_so_many_feeds_at_once(serving: Serving) -> None:
    """Of many feeds that are asked for at one moment as many are open as may be; the others get 503."""
    most = divide_files(FILES).feeds_max
    assert most < FEEDS_MAX
    with holding(serving.port, 50, FEED) as feeds:
        codes = Counter(feed.recv(12)[-3:] for feed in feeds)
        assert answers(serving) == {200: 5}
    assert codes == {b"200": most, b"503": 50 - most}


def test_senders_that_trickle_do_not_starve_others(tmp_path: Path, pack: Path) -> None:
    """While 80 senders with the token send bodies byte by byte, requests of others are taken."""
    assert REQUESTS_MAX < 80
    with (
        owned(tmp_path, pack, free_port(), files=None) as serving,
        holding(serving.port, 80, BEGUN) as senders,
        httpx.Client(headers={**OWNER, **PROTOBUF}, timeout=PROMPT_S) as client,
    ):
        codes: Counter[int] = Counter()
        # Before those that trickle are refused for their slowness.
        until = time.monotonic() + ReceiverLimits().stall_s / 2
        while codes[200] < 10 and time.monotonic() < until:
            for sender in senders:
                with suppress(ConnectionError):
                    sender.sendall(b"x")
            codes[client.post(f"{serving.url}/v1/traces", content=BODY).status_code] += 1
    assert codes[200] == 10, codes
    assert codes.keys() <= {200, 429}


def test_the_end_of_the_pipeline_refuses_what_is_in_flight(tmp_path: Path, pack: Path) -> None:
    """A request that meets a failing store gets 503 and when to come again, and so do bodies underway."""
    with (
        owned(tmp_path, pack, free_port()) as serving,
        holding(serving.port, 1, BEGUN) as bodies,
        holding(serving.port, 1, FEED) as feeds,
    ):
        assert feeds[0].recv(12) == b"HTTP/1.1 200"
        break_store(tmp_path)
        answer = httpx.post(
            f"{serving.url}/v1/traces", content=BODY, headers={**OWNER, **PROTOBUF}, timeout=PROMPT_S
        )
        assert (answer.status_code, int(answer.headers["Retry-After"]) > 0) == (503, True)
        assert bodies[0].recv(12) == b"HTTP/1.1 503"
        code = serving.ended()
    assert code != 0
    assert "ASGI" not in serving.log


def test_the_end_of_the_pipeline_refuses_calls(tmp_path: Path, pack: Path) -> None:
    """A call that meets a failing store gets UNAVAILABLE, and when to come again."""
    grpc_port = free_port()
    with owned(tmp_path, pack, grpc_port) as serving:
        break_store(tmp_path)
        with pytest.raises(grpc.RpcError) as caught:
            called(grpc_port)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "google.rpc.retryinfo-bin" in dict(caught.value.trailing_metadata())
        assert serving.ended() != 0


def break_store(folder: Path) -> None:
    """Have the store refuse the next request in a way that ends the pipeline."""
    with closing(sqlite3.connect(folder / "state" / FILE)) as db:
        db.execute("CREATE TRIGGER fault BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'fault'); END")


def test_too_few_files_are_reported_before_it_serves(tmp_path: Path, pack: Path) -> None:
    """If the limit of open files is too low, the process ends and its error has the limit."""
    with running(tmp_path, pack, sessions={}, files=128) as serving:
        assert serving.ended() == 2
    assert "TRL714" in serving.log
    assert "ulimit -n" in serving.log
