"""Writes that are on disk when they return, with errors that name the file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .error import SourceError


@contextmanager
def disk_errors(path: Path) -> Generator[None]:
    """Raise SourceError (TRL409), which names the file, if the disk rejects a write inside."""
    try:
        yield
    except OSError as error:
        # The operating system names no file when a write fails.
        reason = f": {error.strerror.lower()}" if error.strerror else ""
        hint = "check that the disk has free space and accepts writes, then start again: nothing is lost"
        raise SourceError("TRL409", str(path), f"cannot be written{reason}", hint) from None


def sync_path(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing_file(path: Path) -> Generator[Path]:
    """Yield a path to write a file to; it replaces the file, on disk, if the block ends without an error."""
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        sync_path(part)
        os.replace(part, path)
        sync_path(path.parent)
    finally:
        part.unlink(missing_ok=True)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
