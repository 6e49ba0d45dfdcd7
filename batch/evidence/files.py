"""The files of a bundle: their names and digests."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

_BUFFER_BYTES = 1 << 18


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
    digest, _ = digest_and_size(path, digest_buffer())
    return digest


def digest_buffer() -> memoryview:
    """Return memory for `digest_and_size`, which takes as long to make as a third of a small file."""
    return memoryview(bytearray(_BUFFER_BYTES))


def digest_and_size(path: Path, buffer: memoryview) -> tuple[str, int]:
    """Return the SHA-256 of a file in hex, and its size; the `buffer` is overwritten."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb", buffering=0) as opened:
        while count := opened.readinto(buffer):
            digest.update(buffer[:count])
            size += count
    return digest.hexdigest(), size


def digests(bundle: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the digests of files of a bundle by name."""
    return {name: file_digest(bundle / name) for name in names}
