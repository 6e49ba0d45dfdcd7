"""The guard of Lentz's method for continued fractions, which divides by partial results."""

from __future__ import annotations

TINY = 1e-300
"""The number that stands in for 0."""


def nonzero(value: float) -> float:
    """Return the value, or `TINY` where it is too near 0 to divide by."""
    return value if abs(value) > TINY else TINY
