"""The format of a file, by its first bytes."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")

_MAGIC = {b"PAR1": "parquet", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_JSON_START = re.compile(rb"\xef?\xbb?\xbf?\s*[\[{]\s*[\[{\]}\"]")
_SNIFFED_BYTES = 4_096


class FileFormat(StrEnum):
    """The format of a file, detected from its first bytes."""

    PARQUET = "parquet"
    CHAT = "chat"
    SPANS = "spans"


def sniff(path: Path) -> FileFormat | None:
    """Return the format of a file by its first bytes, decompressed, or None if it is not telemetry."""
    compression, start = head(path)
    if compression == "parquet":
        return FileFormat.PARQUET
    if not start and compression is None and path.name.lower().endswith(JSON_SUFFIXES):
        # The collector's file exporter creates its file before the first span arrives.
        return FileFormat.SPANS
    from .span_files import holds_spans

    if holds_spans(path, start):
        return FileFormat.SPANS
    if path.name.lower().endswith(JSON_SUFFIXES) and start.strip()[:1] in (b"[", b"{"):
        return FileFormat.CHAT
    return FileFormat.CHAT if _JSON_START.match(start) else None


def head(path: Path) -> tuple[str | None, bytes]:
    """Return a file's compression (`parquet` for Parquet) and its first bytes, decompressed."""
    with path.open("rb") as file:
        start = file.read(_SNIFFED_BYTES)
    compression = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    if compression in ("gzip", "zstd"):
        from .open import open_bytes

        try:
            with open_bytes(path) as stream:
                start = stream.read(_SNIFFED_BYTES)
        except (OSError, ValueError):
            return compression, b""
    return compression, start
