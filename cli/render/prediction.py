"""Scores, changes and explanations of learned chains, as JSON values and as words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..terminal import clean

if TYPE_CHECKING:
    from ...predict.validation.behaviour import ViolatingShare
    from ...predict.validation.calibration import ScoreInterval
    from ...predict.validation.fit import ChainFit
    from ...predict.validation.thresholds import RiskThreshold


def json_value(value: Any) -> Any:
    """Return a dataclass as a JSON value: its fields by name; numbers that JSON lacks become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: json_value(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return [json_value(each) for each in value.tolist()]
    if isinstance(value, tuple):
        return [json_value(each) for each in cast("tuple[Any, ...]", value)]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def figure(value: float, form: str) -> str:
    """Return a number, a dash where it is not defined."""
    return f"{value:{form}}" if math.isfinite(value) else "-"


def score(found: ScoreInterval, form: str) -> str:
    """Return a score with its interval, a dash where it is not defined."""
    if math.isnan(found.value):
        return "-"
    return f"{found.value:{form}} ({found.low:{form}} to {found.high:{form}})"


def inside(found: ChainFit) -> str:
    """Return the contexts whose risk is inside their interval, of those compared."""
    return f"{found.contexts - len(found.outside)}/{found.contexts}"


def share(found: ViolatingShare) -> str:
    """Return a share of sessions with its interval."""
    from ...predict.explaining.words import percent

    low, high = (percent(each).removesuffix(" %") for each in (found.low, found.high))
    return f"{found.violating:,} of {found.sessions:,} ({low} to {high} %)"


def threshold(found: RiskThreshold) -> str:
    """Return the promise of a threshold in words."""
    promise = f"{100 * found.miss:g} % missed at {100 * found.confidence:g} %"
    if found.threshold is None:
        if found.violating < found.violating_min:
            needed = f"{found.violating:,} violating sessions, {found.violating_min:,} needed"
            return f"no threshold for {promise}: {needed}"
        return f"no threshold for {promise}: too many verdicts come without an earlier warning"
    warned = f"{found.warned_others:,} of {found.others:,} others are warned of"
    lead = ""
    if found.lead is not None:
        lead = f", lead {found.lead.median:g} events ({found.lead.lower:g} to {found.lead.upper:g})"
    missed = f"misses {found.missed:,} of {found.violating:,} violating sessions"
    return f"warn at {found.threshold:.3g} for {promise}: {missed}, {warned}{lead}"


def aligned_lines(
    heading: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)
) -> Iterator[str]:
    """Yield a heading and rows in columns, those of `left` to the left and the others to the right."""
    table = [[clean(cell) for cell in row] for row in (heading, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heading))]
    for row in table:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
