"""Access to the servers."""

from __future__ import annotations

import base64

import httpx
import pytest
from tracline.stream.error import StreamError
from tracline.stream.ingest.auth import Gate, check_host, check_token, gate_for, is_loopback
from tracline.stream.ingest.rejections import Reason, Refused

from ...support.http.receiving import running

TOKEN = "correct-horse-battery-staple"


def refusal(check, gate: Gate, *headers: str) -> Reason | None:
    """Why these values of a header are refused, or None."""
    try:
        check(gate, headers)
    except Refused as refused:
        return refused.reason
    return None


def basic(user: str, password: str) -> str:
    """An `Authorization` header as browsers write it."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LocalHost", "::ffff:127.0.0.1"]
)
def test_only_this_machine_reaches_a_loopback_address(host: str) -> None:
    """All of 127.0.0.0/8, ::1 and localhost are loopback; a server there needs no token."""
    assert is_loopback(host)
    assert gate_for(host, None).token is None


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "192.168.0.7", "example.com", "localhost.example.com", "127.0.0.1.example.com"],
)
def test_other_addresses_need_a_token(host: str) -> None:
    """A server that others can reach does not start without a token, and its error names the remedy."""
    with pytest.raises(StreamError) as caught:
        gate_for(host, None)
    assert caught.value.code == "TRL711"
    assert "127.0.0.1" in caught.value.hint
    assert gate_for(host, TOKEN) == Gate(None, TOKEN)


@pytest.mark.parametrize(
    "token", ["", "swordfish", "x" * 15, "with a space in it", "line\nbreak-in-the-token", "ümlaut" * 4]
)
def test_a_token_must_be_usable(token: str) -> None:
    """A token that is short, or that a header cannot carry, is refused, and the error does not repeat it."""
    with pytest.raises(StreamError) as caught:
        gate_for("127.0.0.1", token)
    assert caught.value.code == "TRL712"
    assert not token or token not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    "header",
    ["localhost", "localhost:4318", "LOCALHOST:9000", "127.0.0.1:4318", "127.0.0.1", "[::1]:4318", "[::1]"],
)
def test_this_machines_names_pass(header: str) -> None:
    """On loopback the names of this machine pass, with any port: a tunnel has another one."""
    assert refusal(check_host, gate_for("127.0.0.1", None), header) is None


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("",),
        ("evil.example",),
        ("evil.example:4318",),
        ("localhost.evil.example",),
        ("127.0.0.1.evil.example",),
        ("localhost:4318@evil.example",),
        ("localhost:port",),
        ("localhost evil.example",),
        ("127.0.0.2",),
        ("::1",),
        ("0.0.0.0:4318",),
        ("localhost:4318", "evil.example"),
    ],
)
def test_other_names_do_not_pass(headers: tuple[str, ...]) -> None:
    """On loopback a request under another name, under none or under two is refused."""
    assert refusal(check_host, gate_for("127.0.0.1", None), *headers) is Reason.HOST


def test_the_address_that_was_asked_for_is_a_name() -> None:
    """A server on 127.0.0.2 is spoken to by that address too."""
    assert refusal(check_host, gate_for("127.0.0.2", None), "127.0.0.2:4318") is None
    assert refusal(check_host, gate_for("::FFFF:127.0.0.1", TOKEN), "[::ffff:127.0.0.1]:4318") is None


def test_elsewhere_any_name_passes() -> None:
    """Behind a token the name does not matter: containers and proxies have their own."""
    assert refusal(check_host, gate_for("0.0.0.0", TOKEN), "tracline:4318") is None


@pytest.mark.parametrize(
    "header",
    [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Bearer  {TOKEN} ", basic("anybody", TOKEN), basic("", TOKEN)],
)
def test_the_token_passes(header: str) -> None:
    """The token passes as bearer token, and as the password that a browser asks for."""
    assert refusal(check_token, gate_for("0.0.0.0", TOKEN), header) is None


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("",),
        (TOKEN,),
        ("Bearer",),
        (f"Bearer {TOKEN}x",),
        (f"Bearer {TOKEN[:-1]}",),
        (f"Token {TOKEN}",),
        ("Bearer \u00fc",),
        ("Basic \u00fc",),
        (basic(TOKEN, "x"),),
        ("Basic !!!",),
        ("Basic /w==",),
        (f"Bearer {TOKEN}", f"Bearer {TOKEN}"),
    ],
)
def test_nothing_else_passes_for_the_token(headers: tuple[str, ...]) -> None:
    """Anything but the one right token is refused, whatever its form."""
    assert refusal(check_token, gate_for("0.0.0.0", TOKEN), *headers) is Reason.TOKEN


@pytest.mark.slow
def test_a_page_cannot_read_by_having_its_name_resolve_to_here() -> None:
    """A server on loopback answers 421 under a foreign name, on every path, and counts it."""
    with running() as server:
        for path in ("/v1/traces", "/metrics", "/healthz", "/nowhere"):
            refused = httpx.get(server.url + path, headers={"Host": "evil.example"})
            assert refused.status_code == 421
        assert httpx.get(f"{server.url}/metrics").status_code == 200
        assert server.counts("tracline_receiver_refused_total") == {("host",): 4}


@pytest.mark.slow
def test_a_server_for_others_asks_for_the_token() -> None:
    """Without the token it answers 401 and explains how to give it; liveness is public."""
    with running(bound="0.0.0.0", token=TOKEN) as server:
        refused = httpx.get(f"{server.url}/metrics", headers={"Host": "tracline:4318"})
        assert refused.status_code == 401
        assert [value.partition(" ")[0] for value in refused.headers.get_list("www-authenticate")] == [
            "Bearer",
            "Basic",
        ]
        assert httpx.get(f"{server.url}/metrics", auth=("me", TOKEN)).status_code == 200
        assert (
            httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code
            == 200
        )
        assert httpx.get(f"{server.url}/healthz").status_code == 404
