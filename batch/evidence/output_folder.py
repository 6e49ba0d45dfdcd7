"""The output folder of a bundle, which is written atomically and replaces no other content."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ...archive.error import SourceError
from .bundle import IN_EVERY_BUNDLE, SCRATCH


@contextmanager
def staged(out: Path) -> Generator[Path]:
    """Yield a folder for a new bundle, which replaces the bundle `out` at the end.

    It has an empty folder `SCRATCH`, which the caller deletes. Raises SourceError (TRL406) if `out` contains
    anything else. An exception leaves `out` unchanged.
    """
    if out.exists() and not _is_replaceable(out):
        hint = "choose a folder that does not exist, is empty, or contains a bundle"
        raise SourceError("TRL406", str(out), "exists and is not a bundle", hint)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        (work / SCRATCH).mkdir()
        yield work
        work.chmod(0o755)
        if out.exists():
            former = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
            out.replace(former)
            work.replace(out)
            shutil.rmtree(former)
        else:
            work.replace(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _is_replaceable(out: Path) -> bool:
    if not out.is_dir():
        return False
    names = {path.name for path in out.iterdir()}
    return not names or names >= IN_EVERY_BUNDLE
