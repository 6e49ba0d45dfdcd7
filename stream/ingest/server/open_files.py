"""The division of the process's open files among connections, feeds and requests."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from ...error import StreamError

FILES_RESERVED = 96
"""Files that `serve` needs beside its connections: store, archive, console pages, threads, libraries."""
FILES_MIN = 160
"""The least limit of open files with which `serve` starts."""
HTTP_MAX = 1_024
"""Connections of OTLP/HTTP, console and metrics at most."""
GRPC_MAX = 256
"""Connections of OTLP/gRPC at most."""
FEEDS_MAX = 32
"""Open live feeds of the console at most; each polls the store twice a second."""
REQUESTS_MAX = 64
"""Concurrent requests of spans or log records at most."""
FILES_PER_GRPC = 3
"""A connection of gRPC needs its own socket and both ends of the relay's."""
FILES_PER_FEED = 3
"""A feed needs its connection, the store's file and that of its write-ahead log."""


@dataclass(frozen=True, slots=True)
class FileShares:
    """The greatest number of each that `serve` may have open."""

    http_max: int
    grpc_max: int
    feeds_max: int
    requests_max: int


def divide_files(files: int) -> FileShares:
    """Return how to divide the files. Feeds and requests together hold less than all connections.

    Raises:
        StreamError: TRL714 where there are too few.
    """
    if files < FILES_MIN:
        what = f"the limit of open files is {files}; tracline serve needs {FILES_MIN}"
        raise StreamError("TRL714", what, "raise the limit: ulimit -n 1024")
    left = files - FILES_RESERVED
    grpc_max = min(GRPC_MAX, left // 4 // FILES_PER_GRPC)
    left -= FILES_PER_GRPC * grpc_max
    feeds_max = min(FEEDS_MAX, left // 4 // FILES_PER_FEED)
    # A feed's connection counts among these.
    http_max = min(HTTP_MAX, left - (FILES_PER_FEED - 1) * feeds_max)
    return FileShares(http_max, grpc_max, feeds_max, min(REQUESTS_MAX, http_max // 2))


def files_max() -> int:
    """Return the limit of open files, a large number where there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
