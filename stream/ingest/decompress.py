"""Decompressing the bodies of requests, up to a limit."""

from __future__ import annotations

import zlib

from ...schemas.otlp.decoded import Unreadable
from ...schemas.otlp.framing import GZIP_MAGIC, ZSTD_MAGIC, inflated, unpacked
from .limits import ReceiverLimits
from .rejections import Reason, Refused

IDENTITY = "identity"
CODINGS = ("gzip", "deflate", "zstd")
"""The supported values of `Content-Encoding`, beside `identity`."""

_MAGIC = {"gzip": GZIP_MAGIC, "x-gzip": GZIP_MAGIC, "zstd": ZSTD_MAGIC}


def coding_of(header: str) -> str:
    """Return the coding that a `Content-Encoding` header names, `identity` where it is empty.

    Raises Refused for an unsupported one, and for several at once.
    """
    coding = header.strip().lower() or IDENTITY
    if coding not in (IDENTITY, "deflate", *_MAGIC):
        raise Refused(Reason.CODING, f"supported content encodings: {', '.join(CODINGS)}")
    return coding


def unpack(data: bytes, coding: str, limits: ReceiverLimits) -> bytes:
    """Return the decompressed body. Raises Refused as soon as it is damaged or too large."""
    bytes_max = min(limits.unpacked_bytes_max, limits.ratio_max * len(data))
    try:
        if coding == IDENTITY:
            return data
        if coding == "deflate":
            # In HTTP, `deflate` is the zlib format (RFC 9110, 8.4.1.2).
            return inflated(data, bytes_max, coding, zlib.MAX_WBITS)
        if not data.startswith(_MAGIC[coding]):
            raise Refused(Reason.DAMAGED, f"the body is not {coding}, as its content encoding claims")
        return unpacked(data, bytes_max)
    except Unreadable as flaw:
        reason = Reason.SIZE if flaw.code == "otlp-size" else Reason.DAMAGED
        raise Refused(reason, f"the body {flaw.text}") from None
