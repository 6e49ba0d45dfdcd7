"""The cache of compiled loops notices what changes in other files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numba
import pytest
from tracline.schemas.compiled import compiled, compiled_with, digest_of

pytestmark = pytest.mark.slow

LIMITS = "import numpy as np\nLIMIT = {limit}\nTABLE = np.array([0, {entry}])\n"
INNER = """
from tracline.schemas.compiled import compiled
from loops_limits import LIMIT

@compiled
def inner(x):
    return x {sign} LIMIT
"""
OUTER = """
import sys
import numpy as np
from tracline.schemas.compiled import compiled, compiled_with
from loops_inner import inner
from loops_limits import TABLE

@compiled
def outer(x):
    return inner(x) * TABLE[1]

@compiled_with
def made(x):
    return np.full(2, inner(x))

print(outer(5), made(5).tolist(), sum(sum(loop.stats.cache_hits.values()) for loop in (outer, made)))
"""


def write(folder: Path, limit: int = 3, sign: str = "+", entry: int = 10) -> None:
    """Write three modules, of which the last one always stays the same; new sizes are not needed."""
    for name, text in (
        ("loops_limits", LIMITS.format(limit=limit, entry=entry)),
        ("loops_inner", INNER.format(sign=sign)),
        ("loops_outer", OUTER),
    ):
        path = folder / f"{name}.py"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def run(folder: Path) -> str:
    """Run the last module in a process of its own; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-B", str(folder / "loops_outer.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def test_loops_are_compiled_again_where_another_file_changes(tmp_path: Path) -> None:
    """A constant, an array and a called function of other modules, each changed alone; else a cache hit."""
    write(tmp_path)
    assert run(tmp_path) == "80 [8, 8] 0"
    assert run(tmp_path) == "80 [8, 8] 2"
    write(tmp_path, limit=4)
    assert run(tmp_path) == "90 [9, 9] 0"
    write(tmp_path, limit=4, sign="-")
    assert run(tmp_path) == "10 [1, 1] 0"
    write(tmp_path, limit=4, sign="-", entry=20)
    assert run(tmp_path) == "20 [1, 1] 1"
    assert run(tmp_path) == "20 [1, 1] 2"


def test_a_loop_is_compiled_once_for_all_constants(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Numba would compile a call with 1, one with 2 and one with any number apart."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @compiled
    def added(x: Any, y: Any) -> Any:
        return x + y

    @compiled
    def summed(x: Any) -> Any:
        return added(added(added(x, 1), 2), x) + added(3, x)

    assert summed(10) == 36
    assert [len(cast(Any, loop).signatures) for loop in (summed, added)] == [1, 1]


def test_loops_are_compiled_where_no_cache_can_be_written(tmp_path: Path) -> None:
    """As in a read-only container."""
    write(tmp_path)
    (tmp_path / "loops_outer.py").write_text(
        OUTER.split("print")[0] + "print(outer(5), type(outer._cache).__name__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    environment |= {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"}
    (tmp_path / "__pycache__").write_text("a file where the cache would be")
    command = [sys.executable, "-B", str(tmp_path / "loops_outer.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "80 NullCache", done.stderr


CALLED: Any = None
"""A loop that `calling` calls."""


def doubled(x: Any) -> Any:
    """Return twice the number."""
    return 2 * x


def calling(x: Any) -> Any:
    """Return what the loop returns."""
    return CALLED(x)


def test_options_are_part_of_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a loop, and those of the loops that it calls, which may come from another file."""
    digests = set[str]()
    for options in (dict[str, Any](), {"boundscheck": True}):
        loop = compiled_with(doubled, **options)
        monkeypatch.setattr(sys.modules[__name__], "CALLED", loop)
        digests |= {digest_of(loop), digest_of(compiled_with(calling))}
    assert len(digests) == 4
