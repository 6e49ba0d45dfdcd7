"""The files of a bundle: their names and digests."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def bundle_files(bundle: Path) -> list[str]:
    """Return the names of everything in a bundle that is not a folder, sorted; folders are separated by `/`.

    A link counts as what it is, and is not followed.
    """
    found: list[str] = []
    for folder, folders, names in os.walk(bundle):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found += [os.path.relpath(os.path.join(folder, name), bundle) for name in (*names, *links)]
    return sorted(name.replace(os.sep, "/") for name in found)


def is_regular(path: Path) -> bool:
    """Return whether the path is a file and no link to one."""
    return path.is_file() and not path.is_symlink()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    digest, _ = digest_and_size(path)
    return digest


def digest_and_size(path: Path) -> tuple[str, int]:
    """Return the SHA-256 of a file in hex, and its size."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest(), opened.tell()


def digests(bundle: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the digests of files of a bundle by name."""
    return {name: file_digest(bundle / name) for name in names}
