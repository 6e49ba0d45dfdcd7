"""Sockets that listen on an address, and the address as text."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from ...error import StreamError


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on (port 0: a free one), and the required token, which is not in the `repr`."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = field(default=None, repr=False)

    def url(self, port: int | None = None) -> str:
        """Return the URL of the address; `port` replaces a port 0."""
        return f"http://{in_url(self.host)}:{self.port if port is None else port}"


def listening(host: str, port: int) -> socket.socket:
    """Return a socket on the address; port 0 is a free one, `::` is all addresses of IPv6 and IPv4.

    Raises StreamError (TRL713) where it cannot listen there.
    """
    version = socket.AF_INET6 if ":" in host else socket.AF_INET
    is_both = host == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=version, dualstack_ipv6=is_both)
    except OSError:
        raise refused_address(host, port) from None


def refused_address(host: str, port: int) -> StreamError:
    """Return the error of an address that cannot be listened on (TRL713)."""
    hint = "choose another port, or an address of this machine: another process may listen there"
    return StreamError("TRL713", f"cannot listen on {in_url(host)}:{port}", hint)


def in_url(host: str) -> str:
    """Return the host as a URL writes it."""
    return f"[{host}]" if ":" in host else host
