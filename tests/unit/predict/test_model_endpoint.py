"""A model behind an address: what is sent, what is tried again, and what comes instead of an answer."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat

import pytest
from tracline.predict import PredictError
from tracline.predict.sampling.endpoint import RESPONSE_BYTES_MAX, ModelEndpoint

from ...support.http.chat_server import ChatServer, RawAnswer, chat_server, choice, spoken

SECRET = "the customer's secret"
QUESTION = [{"role": "user", "content": SECRET}]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """A server that greets."""
    with chat_server(lambda _: spoken("hello")) as found:
        yield found


def error_of(endpoint: ModelEndpoint) -> str:
    """Return the text of the error of a question."""
    with pytest.raises(PredictError) as caught:
        endpoint(QUESTION)
    assert caught.value.code == "TRL821"
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_question_has_the_messages_the_model_and_the_key(server: ChatServer) -> None:
    """And further members; the answer is the message of the first choice."""
    endpoint = ModelEndpoint(
        server.address, "small", key="sk-1", temperature=0.5, more={"tools": [{"type": "function"}]}
    )
    assert endpoint(QUESTION) == spoken("hello")
    [request] = server.requests
    assert request == {
        "model": "small",
        "messages": QUESTION,
        "temperature": 0.5,
        "tools": [{"type": "function"}],
    }
    assert server.headers[0]["authorization"] == "Bearer sk-1"
    assert server.paths == ["/v1/chat/completions"]
    assert "sk-1" not in repr(endpoint)


def test_the_path_may_be_written_out_and_without_a_key_none_is_sent(server: ChatServer) -> None:
    """A query stays behind it."""
    assert ModelEndpoint(f"{server.address}/chat/completions/?version=1")(QUESTION) == spoken("hello")
    assert server.paths == ["/v1/chat/completions?version=1"]
    assert "authorization" not in server.headers[0]


@pytest.mark.parametrize("status", [429, 408, 500, 503])
def test_a_busy_model_is_asked_again_after_a_while(server: ChatServer, status: int) -> None:
    """Each time twice as late, or when the answer asks for it, but not later than the limit."""
    answers = iter(
        [
            RawAnswer(status),
            RawAnswer(status, headers={"Retry-After": "7"}),
            RawAnswer(status, headers={"Retry-After": "9999"}),
            spoken("at last"),
        ]
    )
    server.script = lambda _: next(answers)
    waited: list[float] = []
    assert ModelEndpoint(server.address, wait=waited.append)(QUESTION) == spoken("at last")
    assert waited == [0.5, 7.0, 20.0]


def test_after_the_last_try_the_error_has_the_status_and_its_code(server: ChatServer) -> None:
    """And nothing of the message, which may quote the conversation."""
    error = {"error": {"message": SECRET, "code": "overloaded"}}
    server.script = lambda _: RawAnswer(503, json.dumps(error).encode())
    assert "answered 503 (overloaded)" in error_of(ModelEndpoint(server.address, wait=lambda _: None))
    assert len(server.requests) == 4


def test_a_refused_question_is_not_repeated(server: ChatServer) -> None:
    """A code that is no short word is left out, as it may be a text."""
    error = {"error": {"message": SECRET, "code": SECRET, "type": None}}
    server.script = lambda _: RawAnswer(400, json.dumps(error).encode())
    assert "TRL821 answered 400\n" in error_of(ModelEndpoint(server.address))
    assert len(server.requests) == 1


def test_a_redirection_is_no_answer(server: ChatServer) -> None:
    """The key must not go elsewhere."""
    server.script = lambda _: RawAnswer(307, headers={"Location": "http://127.0.0.1:9/"})
    assert "answered 307" in error_of(ModelEndpoint(server.address, key="sk-1"))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"<html>", "the answer is no JSON"),
        (b"[]", "without choices[0].message"),
        (b'{"choices": []}', "without choices[0].message"),
        (b'{"choices": [{"message": "%s"}]}' % SECRET.encode(), "without choices[0].message"),
        (b'{"choices": {"0": 1}}', "without choices[0].message"),
    ],
)
def test_what_comes_instead_of_a_message_is_named(server: ChatServer, body: bytes, what: str) -> None:
    """By its shape alone."""
    server.script = lambda _: RawAnswer(body=body)
    assert what in error_of(ModelEndpoint(server.address))


@pytest.mark.slow
def test_an_answer_has_limits_of_size_and_time(server: ChatServer) -> None:
    """It is cut off where it exceeds one; a compressed one is not even read."""
    server.script = lambda _: RawAnswer(body=b" " * (RESPONSE_BYTES_MAX + 1))
    assert "more than 4,194,304 bytes" in error_of(ModelEndpoint(server.address))
    server.script = lambda _: spoken("late")
    times = chain([0.0], repeat(11.0))
    slow = ModelEndpoint(server.address, timeout_s=10, clock=lambda: next(times))
    assert "took more than 10 s" in error_of(slow)
    zipped = RawAnswer(body=gzip.compress(choice(spoken("hello"))), headers={"Content-Encoding": "gzip"})
    server.script = lambda _: zipped
    assert "compressed" in error_of(ModelEndpoint(server.address))


def test_headers_that_never_end_are_cut_off_in_time() -> None:
    """Each of them comes in time, and there is one connection only: the question is not repeated."""
    asked: list[bytes] = []

    def trickle() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            asked.append(connection.recv(1 << 16))
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                connection.sendall(b"X: y\r\n")
                threading.Event().wait(0.02)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=trickle)
        server.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert "the answer took more than 0.2 s" in error_of(ModelEndpoint(address, timeout_s=0.2))
        server.join()
    assert len(asked) == 1


def test_an_address_without_a_server_is_an_error_without_its_secrets() -> None:
    """The error names the address, without user, password and query."""
    waited: list[float] = []
    endpoint = ModelEndpoint("http://me:hidden@127.0.0.1:9/v1?token=hidden", wait=waited.append)
    text = error_of(endpoint)
    assert text.startswith("http://127.0.0.1:9/v1: TRL821 no answer (ConnectError)")
    assert "hidden" not in text
    assert len(waited) == 3


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:80", "ftp://x/v1", "http://", "http://a b/", "http://x:99999", f"http://{'x' * 99}", ""],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """Before anything is asked, and without quoting it."""
    with pytest.raises(PredictError, match="TRL821 the address is no absolute one"):
        ModelEndpoint(address)


def test_a_key_that_no_header_can_carry_is_refused() -> None:
    """Without quoting it."""
    with pytest.raises(PredictError, match="the key has characters") as caught:
        ModelEndpoint("http://127.0.0.1:9", key="sk-1\n")
    assert "sk-1" not in str(caught.value)
