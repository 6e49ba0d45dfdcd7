"""Words of labels: the truth of 64 propositions at an event, or which of them are unknown, as one number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

WORD_BITS = 64
"""Propositions in one word of labels."""

U64 = NDArray[np.uint64]
Flags = NDArray[np.bool_]


def packed(flags: Flags) -> U64:
    """Return the flags of each row as words: the first word holds the first 64."""
    words = [np.zeros((len(flags), 0), dtype=np.uint64)]
    for start in range(0, flags.shape[1], WORD_BITS):
        bits = flags[:, start : start + WORD_BITS].astype(np.uint64)
        words.append((bits @ (np.uint64(1) << np.arange(bits.shape[1], dtype=np.uint64)))[:, None])
    return np.hstack(words)


def word_columns(letter: str, flags: Sequence[pl.Expr | None]) -> list[pl.Expr]:
    """Return the flags as the bits of words: `t0` holds the first 64. Null and None set no bit."""
    return [
        _word(flags[start : start + WORD_BITS]).alias(f"{letter}{start // WORD_BITS}")
        for start in range(0, len(flags), WORD_BITS)
    ]


def _word(flags: Sequence[pl.Expr | None]) -> pl.Expr:
    """Return up to 64 flags as the bits of one word, via bytes, which take an eighth of the memory."""
    word = pl.lit(0, dtype=pl.UInt64)
    for start in range(0, len(flags), 8):
        bits = [
            pl.when(flag).then(pl.lit(1 << bit, pl.UInt8)).otherwise(pl.lit(0, pl.UInt8))
            for bit, flag in enumerate(flags[start : start + 8])
            if flag is not None
        ]
        if bits:
            byte = pl.reduce(lambda left, right: left | right, bits)
            word = word | byte.cast(pl.UInt64) * pl.lit(1 << start, dtype=pl.UInt64)
    return word
