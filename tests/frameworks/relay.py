"""A relay between a framework's exporter and `tracline serve`: it records each request and passes it on."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

import httpx

LANGFUSE = "/api/public/otel/v1/traces"
TRACES = ("/v1/traces", LANGFUSE)
UNPACK = {"gzip": gzip.decompress, "deflate": zlib.decompress}


@dataclass
class Recording:
    """The requests that came: their files, and what the receiver answered to each path."""

    folder: Path
    receiver: str
    answers: dict[str, list[int]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    count: int = 0

    def take(self, path: str, body: bytes, kind: str) -> httpx.Response:
        """Write a request down and pass it on."""
        suffix = "json" if "json" in kind else "pb"
        with self.lock:
            self.count += 1
            name = f"{self.count:04d}"
            if path in TRACES:
                file = self.folder / "otlp" / f"{name}.{suffix}"
            else:
                file = self.folder / "other" / f"{name}{path.replace('/', '_')}.{suffix}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
            answer = httpx.post(
                self.receiver + path, content=body, headers={"content-type": kind}, timeout=30, verify=False
            )
            self.answers.setdefault(path, []).append(answer.status_code)
        return answer


class Handler(BaseHTTPRequestHandler):
    """One request of an exporter."""

    protocol_version = "HTTP/1.1"
    recording: Recording

    def do_POST(self) -> None:
        """Record a request, pass it on, and answer what the receiver answers (or that it was taken)."""
        body = self.body()
        packing = self.headers.get("content-encoding", "")
        body = UNPACK[packing](body) if packing in UNPACK else body
        kind = self.headers.get("content-type", "application/x-protobuf").split(";")[0]
        answer = self.recording.take(self.path.split("?")[0], body, kind)
        taken = answer is not None and answer.status_code < 300
        self.send_response(200)
        data = answer.content if answer is not None and taken else b""
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self) -> bytes:
        """Return the request's body, in chunks or at once."""
        if "content-length" in self.headers:
            return self.rfile.read(int(self.headers["content-length"]))
        chunks: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def do_GET(self) -> None:
        """Answer that nothing is here."""
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing about requests."""


@contextmanager
def relaying(folder: Path, receiver: str) -> Iterator[tuple[str, Recording]]:
    """Relay to a receiver and record to a folder; the relay's address, and the recording."""
    recording = Recording(folder, receiver)
    handler = type("RelayHandler", (Handler,), {"recording": recording})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", recording
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
