"""Compilation of loops with Numba, and the cache of what it compiled.

Numba's own cache notices a change of a function's own file only. This one also notices changes of the
options, of the constants and of the compiled functions that a function has from other files, because their
digest is part of each key: a stale loop would give wrong verdicts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import CodeType, FunctionType
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray


def _import_array_functions() -> None:
    """Import what the first compiled loop needs of Numba, without SciPy's linear algebra.

    Numba imports that, in 0.15 s of processor time, only to find out if it is there. Its function that does
    so is private: a Numba without it imports what it needs later, as ever.
    """
    linear_algebra = cast(Any, import_module("numba.np.linalg"))
    import_blas = getattr(linear_algebra, "ensure_blas", None)
    if import_blas is None or find_spec("scipy") is None:
        return
    linear_algebra.ensure_blas = lambda: None
    try:
        import_module("numba.np.arraymath")
    finally:
        linear_algebra.ensure_blas = import_blas


_import_array_functions()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the function on first use, without the interpreter lock, and cache it on disk if possible.

    The function makes no array: then nothing is counted as it passes arrays on, which would take most of the
    time of a short function.
    """
    return compiled_with(function, _nrt=False)


def compiled_with(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile the function as `compiled` does, with further options of Numba; it may make arrays."""
    dispatcher = cast(Any, numba).njit(nogil=True, error_model="numpy", **options)(function)
    _compile_once_for_constants(dispatcher)
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        # Neither this folder nor the user's cache is writable, as in a read-only container.
        return dispatcher
    cache = dispatcher._cache
    key_of_file = cache._index_key

    def key(signature: object, codegen: object) -> tuple[object, ...]:
        return (*key_of_file(signature, codegen), digest_of(dispatcher))

    cache._index_key = key
    return dispatcher


def _compile_once_for_constants(dispatcher: Any) -> None:
    """Let calls from other loops with a constant be calls with any number: each would be compiled apart."""
    call_template = dispatcher.get_call_template
    unliteral = cast("Callable[[object], object]", cast(Any, numba).types.unliteral)

    def get(args: Iterable[object], named: Mapping[str, object]) -> object:
        return call_template(tuple(map(unliteral, args)), {key: unliteral(arg) for key, arg in named.items()})

    dispatcher.get_call_template = get


def digest_of(loop: Any) -> str:
    """Return a digest of a loop, of its options and global constants, and of the loops that it calls."""
    digest = hashlib.sha256()
    for part in _parts(loop, set()):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def _parts(loop: Any, seen: set[FunctionType]) -> Iterator[bytes]:
    """Yield what the compiled form of a loop depends on; `seen` are the functions that were read."""
    function = cast("FunctionType", loop.py_func)
    seen.add(function)
    code = function.__code__
    yield repr(sorted(loop.targetoptions.items())).encode()
    yield code.co_code
    yield repr([constant for constant in code.co_consts if not isinstance(constant, CodeType)]).encode()
    for name in code.co_names:
        value = function.__globals__.get(name)
        inner = cast("FunctionType | None", getattr(value, "py_func", None))
        yield name.encode()
        if inner is not None:
            if inner not in seen:
                yield from _parts(value, seen)
        elif isinstance(value, np.ndarray):
            array = cast("NDArray[Any]", value)
            yield f"{array.dtype.str} {array.shape}".encode() + array.tobytes()
        elif isinstance(value, (int, float, str, bytes, tuple, np.generic)):
            yield repr(cast(object, value)).encode()
