"""BLAKE2b (RFC 7693) with digests of 16 bytes, in compiled loops over words of a state.

A state is a row of `STATE_WORDS` words: eight of the chain, the number of bytes that it has, the number of
bytes in the block, and the block. Bytes are written into the block through a view of the same row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled

LENGTH, FILLED, BLOCK = 8, 9, 10
BLOCK_BYTES = 128
STATE_WORDS = BLOCK + BLOCK_BYTES // 8
_BLOCK_AT = 8 * BLOCK
_DIGEST_WORDS = 2

_IV = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    np.uint64,
)
# The parameters are the length of a digest, no key, and one leaf.
_PARAMETERS = np.uint64(0x01010000 ^ (8 * _DIGEST_WORDS))
_ORDERS = np.array(
    [
        *(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        *(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
        *(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
        *(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
        *(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
        *(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
        *(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
        *(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
        *(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
        *(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
        *(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        *(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    ],
    np.int64,
).reshape(12, 16)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@compiled
def _turned(word: Any, bits: Any) -> Any:
    return (word >> np.uint64(bits)) | (word << np.uint64(64 - bits))


@compiled
def _mixed(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
    a = a + b + x
    d = _turned(d ^ a, 32)
    c = c + d
    b = _turned(b ^ c, 24)
    a = a + b + y
    d = _turned(d ^ a, 16)
    c = c + d
    b = _turned(b ^ c, 63)
    return a, b, c, d


@compiled
def _compress(s: Any, is_last: Any) -> None:
    """Take the block of a state into its chain."""
    a0, a1, a2, a3, b0, b1, b2, b3 = s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
    c0, c1, c2, c3, d0, d1, d2, d3 = _IV[0], _IV[1], _IV[2], _IV[3], _IV[4], _IV[5], _IV[6], _IV[7]
    d0 ^= s[LENGTH]
    if is_last:
        d2 ^= _ALL
    for n in range(12):
        o, m = _ORDERS[n], s[BLOCK:]
        a0, b0, c0, d0 = _mixed(a0, b0, c0, d0, m[o[0]], m[o[1]])
        a1, b1, c1, d1 = _mixed(a1, b1, c1, d1, m[o[2]], m[o[3]])
        a2, b2, c2, d2 = _mixed(a2, b2, c2, d2, m[o[4]], m[o[5]])
        a3, b3, c3, d3 = _mixed(a3, b3, c3, d3, m[o[6]], m[o[7]])
        a0, b1, c2, d3 = _mixed(a0, b1, c2, d3, m[o[8]], m[o[9]])
        a1, b2, c3, d0 = _mixed(a1, b2, c3, d0, m[o[10]], m[o[11]])
        a2, b3, c0, d1 = _mixed(a2, b3, c0, d1, m[o[12]], m[o[13]])
        a3, b0, c1, d2 = _mixed(a3, b0, c1, d2, m[o[14]], m[o[15]])
    s[0] ^= a0 ^ c0
    s[1] ^= a1 ^ c1
    s[2] ^= a2 ^ c2
    s[3] ^= a3 ^ c3
    s[4] ^= b0 ^ d0
    s[5] ^= b1 ^ d1
    s[6] ^= b2 ^ d2
    s[7] ^= b3 ^ d3


@compiled
def begin_digest(s: Any) -> None:
    """Make a state that of no bytes."""
    for k in range(8):
        s[k] = _IV[k]
    s[0] ^= _PARAMETERS
    s[LENGTH], s[FILLED] = 0, 0


@compiled
def add_bytes(s: Any, s8: Any, b: Any, at: Any, stop: Any) -> None:
    """Add bytes to a state, of which `s8` is the view by bytes."""
    filled = np.int64(s[FILLED])
    while at < stop:
        if filled == BLOCK_BYTES:
            # The last block is compressed with the digest.
            s[LENGTH] += np.uint64(BLOCK_BYTES)
            _compress(s, False)
            filled = 0
        size = min(stop - at, BLOCK_BYTES - filled)
        for k in range(size):
            s8[_BLOCK_AT + filled + k] = b[at + k]
        at, filled = at + size, filled + size
    s[FILLED] = filled


@compiled
def put_digest(s: Any, s8: Any, out: Any, at: Any) -> None:
    """Write the digest of a state in hexadecimal digits; the state is of no use then."""
    filled = np.int64(s[FILLED])
    for k in range(filled, BLOCK_BYTES):
        s8[_BLOCK_AT + k] = 0
    s[LENGTH] += np.uint64(filled)
    _compress(s, True)
    for k in range(8 * _DIGEST_WORDS):
        byte = s8[k]
        out[at + 2 * k], out[at + 2 * k + 1] = _HEX[byte >> 4], _HEX[byte & 15]
