"""Smoothing over the valid successors of each state (Pro2Guard, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence


def laplace(
    counts: Sequence[Sequence[int]], alpha: float, valid: Sequence[Sequence[bool]] | None = None
) -> list[list[float]]:
    """Return the rows P(i, j) = (n_ij + alpha) / (n_i + k_i alpha) over the k_i valid successors of i.

    `counts` has a row a state with the transitions to each state; `valid` has the transitions that can occur,
    all of them by default. A state without any successor stays where it is. Raises ValueError for counts of a
    transition that cannot occur, for negative numbers, and for rows of unequal lengths.
    """
    size = len(counts)
    rows = [[True] * size] * size if valid is None else valid
    if alpha < 0 or any(len(row) != size for row in (*counts, *rows)) or len(rows) != size:
        raise ValueError("laplace needs square rows of the same size and an alpha of at least 0")
    return [_row(state, row, alpha, rows[state]) for state, row in enumerate(counts)]


def _row(state: int, counts: Sequence[int], alpha: float, valid: Sequence[bool]) -> list[float]:
    if any(count < 0 or (count and not is_valid) for count, is_valid in zip(counts, valid, strict=True)):
        raise ValueError(f"state {state} has a negative count, or a count of a transition that is not valid")
    total = sum(counts) + alpha * sum(valid)
    if total == 0:
        return [float(target == state) for target in range(len(counts))]
    return [
        (count + alpha) / total if is_valid else 0.0 for count, is_valid in zip(counts, valid, strict=True)
    ]
