"""A web server that keeps what is posted to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer


@dataclass
class Hook:
    """A web server: what was posted to it, and the status that it answers with."""

    url: str = ""
    status: int = 200
    posts: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def hook() -> Iterator[Hook]:
    """Run one on a free port."""
    receiver = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.posts.append((dict(self.headers), body))
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/alerts"
    yield receiver
    server.shutdown()
    thread.join()
    server.server_close()
