"""Where a server listens: sockets on an address, and the address in words."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from ...error import StreamError


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, port 0 being a free one, and the token that is asked for; it is not in the `repr`."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = field(default=None, repr=False)

    def url(self, port: int | None = None) -> str:
        """The address as one writes it in a browser; `port` is the one that was taken, if it was free."""
        return f"http://{in_url(self.host)}:{self.port if port is None else port}"


def listening(host: str, port: int) -> socket.socket:
    """A socket on the address; port 0 is a free one, and `::` is all addresses, those of IPv4, too.

    Raises StreamError (TRL713) where it cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    is_both = host == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=is_both)
    except OSError:
        raise refused_address(host, port) from None


def refused_address(host: str, port: int) -> StreamError:
    """That an address cannot be had (TRL713)."""
    hint = "another process may listen there; choose another port, or an address of this machine"
    return StreamError("TRL713", f"{in_url(host)}:{port} cannot be listened on", hint)


def in_url(host: str) -> str:
    """The host as it stands in an address with a port."""
    return f"[{host}]" if ":" in host else host
