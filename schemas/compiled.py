"""Compilation of loops with Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the function on first use, without the interpreter lock, and cache it on disk if possible.

    The function makes no array: then nothing is counted as it passes arrays on, which would take most of the
    time of a short function. The cache notices a change of the function's own file only: functions that call
    each other belong in one file.
    """
    compiler = cast(Any, numba)
    options = {"nogil": True, "error_model": "numpy", "_nrt": False}
    try:
        return compiler.njit(cache=True, **options)(function)
    except RuntimeError:
        # Neither this folder nor the user's cache is writable, as in a read-only container.
        return compiler.njit(**options)(function)
