"""Output folders, which are written whole or not at all and replace no other content."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from ...archive.error import SourceError
from .bundle import IN_EVERY_BUNDLE, SCRATCH


@contextmanager
def staged(out: Path) -> Generator[Path]:
    """Yield a folder for a new bundle, which replaces the bundle `out` at the end, as `replacing` does.

    It has an empty folder `SCRATCH`, which the caller deletes.
    """
    with replacing(out, "a bundle", IN_EVERY_BUNDLE.issubset) as work:
        (work / SCRATCH).mkdir()
        yield work


@contextmanager
def replacing(out: Path, what: str, is_what: Callable[[set[str]], bool]) -> Generator[Path]:
    """Yield an empty folder, which becomes `out` at the end.

    Raises SourceError (TRL406) if `out` exists and is neither empty nor `what` the caller writes, which the
    names of its files decide. An exception leaves `out` unchanged.
    """
    if out.exists() and not _is_replaceable(out, is_what):
        hint = f"choose a folder that does not exist, is empty, or contains {what}"
        raise SourceError("TRL406", str(out), f"exists and is not {what}", hint)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = _beside(out)
    try:
        yield work
        work.chmod(0o755)
        if out.exists():
            _exchange(out, work)
        else:
            work.replace(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _exchange(out: Path, work: Path) -> None:
    """Put `work` in the place of `out`, and delete what was there once it is."""
    former = _beside(out)
    out.replace(former)
    try:
        work.replace(out)
    except OSError:
        former.replace(out)
        raise
    shutil.rmtree(former)


def _beside(out: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))


def _is_replaceable(out: Path, is_what: Callable[[set[str]], bool]) -> bool:
    if not out.is_dir():
        return False
    names = {path.name for path in out.iterdir()}
    return not names or is_what(names)
