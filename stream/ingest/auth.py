"""Authentication of requests: by host name on a loopback address, elsewhere by token.

A web page may have its own name resolve to 127.0.0.1 and then read from servers there (DNS rebinding). The
browser still sends that name as `Host`, so a server on a loopback address accepts the names of this machine
only. gRPC is out of such a page's reach: browsers speak HTTP/2 over TLS alone.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..error import StreamError
from .meter import RefusalMeter
from .rejections import Reason, Refused
from .responses import refusal
from .server.http_server import client_of

TOKEN_CHARS_MIN = 16
"""Characters of a token at least: anyone who reaches the port can try all shorter ones."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?")
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Gate:
    """The host names that a server accepts (None: any), and the token that it requires, if any."""

    names: frozenset[str] | None
    token: str | None


def gate_for(host: str, token: str | None) -> Gate:
    """Return the gate of a server that listens on `host`, an address or `localhost`; no name is resolved.

    On a loopback address the token may be None; a token that is given is required there, too.

    Raises:
        StreamError: TRL711 on any other address without a token, TRL712 for a token that is too short or that
            a header cannot carry.
    """
    if token is not None and (len(token) < TOKEN_CHARS_MIN or not _TOKEN.fullmatch(token)):
        what = f"the token has fewer than {TOKEN_CHARS_MIN} characters, or characters not allowed in a header"
        hint = "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        raise StreamError("TRL712", what, hint)
    if is_loopback(host):
        name = f"[{host}]" if ":" in host else host
        return Gate(_LOCAL | {name.lower()}, token)
    if token is None:
        what = f"no token for {host}, which other machines can reach"
        raise StreamError("TRL711", what, "set a token, or listen on 127.0.0.1")
    return Gate(None, token)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address. No name but `localhost` counts as such."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def check_host(gate: Gate, headers: Sequence[str]) -> None:
    """Raise Refused unless the one `Host` header names this machine.

    The port is not compared: a tunnel may have another one, and an attacking page cannot choose the name.
    """
    if gate.names is None:
        return
    named = _HOST.fullmatch(headers[0].strip()) if len(headers) == 1 else None
    if named is None or named["name"].lower() not in gate.names:
        raise Refused(Reason.HOST, "accepted host names: localhost, 127.0.0.1, [::1]")


def check_token(gate: Gate, headers: Sequence[str]) -> None:
    """Raise Refused unless the one `Authorization` header has the required token.

    It is `Bearer TOKEN`, or `Basic` with the token as password, which a browser asks its user for.
    """
    if gate.token is None:
        return
    given = _credentials(headers[0]) if len(headers) == 1 else ""
    if not hmac.compare_digest(given.encode(), gate.token.encode()):
        raise Refused(Reason.TOKEN, "missing or wrong token; send: Authorization: Bearer TOKEN")


def _credentials(header: str) -> str:
    """Return the token in an `Authorization` header, empty where there is none."""
    scheme, _, given = header.strip().partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        # Not base64, or not UTF-8 inside.
        return ""


class GateMiddleware:
    """The gate of an ASGI app; paths in `without_token` need no token."""

    def __init__(
        self,
        app: ASGIApp,
        gate: Gate,
        meter: RefusalMeter,
        without_token: Collection[str] = ("/healthz", "/readyz"),
    ) -> None:
        self._app = app
        self._gate = gate
        self._meter = meter
        self._without_token = frozenset(without_token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 421 or 401, or call the app."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        client = client_of(scope)
        try:
            authenticated = self._check(scope)
        except Refused as refused:
            self._meter.refused(refused.reason)
            await refusal(refused, Headers(scope=scope))(scope, receive, send)
            if client is not None:
                client.refused()
            return
        if client is None:
            await self._app(scope, receive, send)
            return
        with client.answering(authenticated=authenticated):
            await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> bool:
        """Return whether the gate checked the token. Raises Refused where the gate refuses it."""
        headers = Headers(scope=scope)
        check_host(self._gate, headers.getlist("host"))
        if scope["path"] in self._without_token:
            return False
        check_token(self._gate, headers.getlist("authorization"))
        return True
