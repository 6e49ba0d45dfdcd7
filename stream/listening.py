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
        hint = "another process may listen there; choose another port, or an address of this machine"
        raise StreamError("TRL713", f"{host}:{port} cannot be listened on", hint) from None


def in_url(host: str) -> str:
    """The host as it stands in an address with a port."""
    return f"[{host}]" if ":" in host else host
