"""The compiled loops of BLAKE2b make the digests of Python's library."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tracline.schemas.plain_calls.blake_loops import (
    BLOCK_BYTES,
    STATE_WORDS,
    add_bytes,
    begin_digest,
    put_digest,
)

SIZES = (0, 1, 7, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES, 1_000)


def digest(parts: Sequence[bytes]) -> str:
    """Return the digest of bytes that come in parts."""
    state, written = np.full(STATE_WORDS, 7, np.uint64), np.zeros(34, np.uint8)
    by_bytes = state.view(np.uint8)
    begin_digest(state)
    for part in parts:
        add_bytes(state, by_bytes, np.frombuffer(b"x" + part, np.uint8), 1, 1 + len(part))
    put_digest(state, by_bytes, written, 1)
    return written[1:33].tobytes().decode()


@given(st.lists(st.one_of(st.binary(max_size=300), st.sampled_from(SIZES).map(bytes)), max_size=6))
def test_digests_are_those_of_the_library(parts: list[bytes]) -> None:
    """Of bytes that come in any parts, also where these end with a block."""
    assert digest(parts) == hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()
