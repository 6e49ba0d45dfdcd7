"""How many files the process may open, and how many connections that leaves it."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from ...error import StreamError

FILES_RESERVED = 96
"""Files that `serve` needs beside its connections: store, archive, pages in work, threads and libraries."""
FILES_MIN = 160
"""Of open files: fewer leave too little for connections."""
HTTP_MAX = 1_024
"""Connections of OTLP/HTTP, console and metrics."""
GRPC_MAX = 256
"""Connections of OTLP/gRPC."""
FEEDS_MAX = 32
"""Open feeds of the console; each looks at the store twice a second."""
REQUESTS_MAX = 64
"""Requests of spans that are read, decoded or written at once."""
FILES_PER_GRPC = 3
"""A connection of gRPC has both ends of its way to gRPC's own server, too."""
FILES_PER_FEED = 3
"""A feed has its connection, the store and its log."""


@dataclass(frozen=True, slots=True)
class FileShares:
    """What `serve` may have open of each."""

    http_max: int
    grpc_max: int
    feeds_max: int
    requests_max: int


def divide_files(files: int) -> FileShares:
    """Divide so many files. Feeds and requests together hold less than the connections there are.

    Raises:
        StreamError: TRL714 where they are too few.
    """
    if files < FILES_MIN:
        what = f"the process may open {files} files, and needs {FILES_MIN}"
        raise StreamError("TRL714", what, "raise the limit: ulimit -n 1024")
    left = files - FILES_RESERVED
    grpc_max = min(GRPC_MAX, left // 4 // FILES_PER_GRPC)
    left -= FILES_PER_GRPC * grpc_max
    feeds_max = min(FEEDS_MAX, left // 4 // FILES_PER_FEED)
    # The connection of a feed is one of these.
    http_max = min(HTTP_MAX, left - (FILES_PER_FEED - 1) * feeds_max)
    return FileShares(http_max, grpc_max, feeds_max, min(REQUESTS_MAX, http_max // 2))


def files_max() -> int:
    """Return how many files the process may open; very many where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
