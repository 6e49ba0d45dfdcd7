"""The checks of a verification, each passed, failed or not checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec
import polars as pl
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

from ...archive.error import CODES, SourceError
from ...predict.error import PredictError
from ...rules.model.problem import RuleError

FILES_LISTED_MAX = 20
"""Files that a check names; the detail has the number of the others."""

_arrow: Any = pa
UNREADABLE: Final[tuple[type[Exception], ...]] = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    msgspec.MsgspecError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    _arrow.ArrowException,
    SourceError,
    RuleError,
    PredictError,
)
"""The exceptions of reading changed files: JSON of other types, damaged Parquet, other packs."""


class CheckResult(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not_checked"


@dataclass(frozen=True, slots=True)
class BundleCheck:
    """A check with its result, a sentence on it, and the files that it is about."""

    check: str
    result: CheckResult
    detail: str
    files: tuple[str, ...] = ()


def passed(check: str, detail: str) -> BundleCheck:
    """Return a check that passed."""
    return BundleCheck(check, CheckResult.PASSED, detail)


def failed(check: str, code: str, detail: str, files: Iterable[str] = ()) -> BundleCheck:
    """Return a check that failed; the detail begins with the code."""
    assert code in CODES, f"{code} is not in the table of codes"
    named = sorted(set(files))
    more = len(named) - FILES_LISTED_MAX
    rest = f", and {more} further files" if more > 0 else ""
    return BundleCheck(check, CheckResult.FAILED, f"{code} {detail}{rest}", tuple(named[:FILES_LISTED_MAX]))


def not_checked(check: str, reason: str) -> BundleCheck:
    """Return a check that was not made."""
    return BundleCheck(check, CheckResult.NOT_CHECKED, reason)


def guarded(check: str, code: str, make: Callable[[], BundleCheck]) -> BundleCheck:
    """Return a check, failed if a file that it reads is missing or damaged."""
    try:
        return make()
    except UNREADABLE as error:
        return failed(check, code, f"cannot be checked in these files: {type(error).__name__}")
