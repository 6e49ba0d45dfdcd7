"""Sockets on an address, and the address in words."""

from __future__ import annotations

import socket

from .error import StreamError


def listening(host: str, port: int) -> socket.socket:
    """A socket on the address; port 0 is a free one. Raises StreamError (TRL713) where it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError:
        raise refused_address(host, port) from None


def refused_address(host: str, port: int) -> StreamError:
    """That an address cannot be had (TRL713)."""
    hint = "another process may listen there; choose another port, or an address of this machine"
    return StreamError("TRL713", f"{in_url(host)}:{port} cannot be listened on", hint)


def in_url(host: str) -> str:
    """The host as it stands in an address with a port."""
    return f"[{host}]" if ":" in host else host
