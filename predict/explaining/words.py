"""Risks in words."""

from __future__ import annotations


def percent(share: float) -> str:
    """Return a share in per cent with the two digits that matter."""
    if 0 < share < 0.0001:
        return "under 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def horizon(within: int | None) -> str:
    """Return a horizon in words."""
    return "ever" if within is None else f"within {within:,} {'event' if within == 1 else 'events'}"


def rise_words(before: float, after: float, seq: int, symbol: str) -> str:
    """Return a rise of a risk in words."""
    return f"from {percent(before)} to {percent(after)} at event {seq}: {symbol}"
