"""Unpacking the bodies of requests, up to a limit."""

from __future__ import annotations

import zlib

from ...schemas.otlp.decoded import Unreadable
from ...schemas.otlp.framing import GZIP_MAGIC, ZSTD_MAGIC, inflated, unpacked
from .limits import ReceiverLimits
from .rejections import Reason, Refused

IDENTITY = "identity"
CODINGS = ("gzip", "deflate", "zstd")
"""The values of `Content-Encoding` that are read, beside `identity`."""

_MAGIC = {"gzip": GZIP_MAGIC, "x-gzip": GZIP_MAGIC, "zstd": ZSTD_MAGIC}


def coding_of(header: str) -> str:
    """The coding that a `Content-Encoding` header names, `identity` where it is empty.

    Raises Refused for one that is not read, and for several of them on top of one another.
    """
    coding = header.strip().lower() or IDENTITY
    if coding not in (IDENTITY, "deflate", *_MAGIC):
        raise Refused(Reason.CODING, f"the content encodings that are read are {', '.join(CODINGS)}")
    return coding


def unpack(data: bytes, coding: str, limits: ReceiverLimits) -> bytes:
    """The body out of its coding. Raises Refused where it is damaged or too large; it stops there."""
    bytes_max = min(limits.unpacked_bytes_max, limits.ratio_max * len(data))
    try:
        if coding == IDENTITY:
            return data
        if coding == "deflate":
            # In HTTP that is zlib's own format (RFC 9110, 8.4.1.2).
            return inflated(data, bytes_max, coding, zlib.MAX_WBITS)
        if not data.startswith(_MAGIC[coding]):
            raise Refused(Reason.DAMAGED, f"the body is no {coding}, which its content encoding says")
        return unpacked(data, bytes_max)
    except Unreadable as flaw:
        reason = Reason.SIZE if flaw.code == "otlp-size" else Reason.DAMAGED
        raise Refused(reason, f"the body {flaw.text}") from None
