"""A server of the scripted model over HTTP: the APIs of OpenAI and Anthropic."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import model_formats as formats
from .model_replies import FailsNow, Model, NotScripted, Reply

Write = Callable[[Reply, Mapping[str, Any]], Any]
APIS: dict[str, tuple[Write, Write]] = {
    "/chat/completions": (formats.chat, formats.chat_stream),
    "/responses": (formats.responses, formats.responses_stream),
    "/messages": (formats.messages, formats.messages_stream),
}
"""By the end of the path: what writes a reply at once, and what streams it."""


class Handler(BaseHTTPRequestHandler):
    """One request to the scripted model."""

    protocol_version = "HTTP/1.1"
    model: Model

    def do_POST(self) -> None:
        """Answer with the script's next reply."""
        path = self.path.split("?")[0]
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        api = next((name for name in APIS if path.endswith(name)), None)
        if api is None:
            self.answer(404, {"error": {"message": f"unknown path {path}", "type": "not_found"}})
            return
        try:
            reply = self.model.reply(body)
        except FailsNow:
            self.answer(500, {"error": {"message": "the scripted failure", "type": "server_error"}})
            return
        except NotScripted as error:
            print(f"model server: {error}: {json.dumps(body, ensure_ascii=False)[:2000]}", file=sys.stderr)
            self.answer(400, {"error": {"message": str(error), "type": "invalid_request_error"}})
            return
        at_once, stream = APIS[api]
        if body.get("stream"):
            self.stream(stream(reply, body), ends=api == "/chat/completions")
        else:
            self.answer(200, at_once(reply, body))

    def answer(self, status: int, body: object) -> None:
        """Answer with a body of JSON."""
        data = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, chunks: Iterator[dict[str, Any]], ends: bool) -> None:
        """Answer with server-sent events; `ends` closes them as OpenAI's chat completions do."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for chunk in chunks:
            named = f"event: {chunk['type']}\n" if "type" in chunk else ""
            self.wfile.write(f"{named}data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())
        if ends:
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing about requests."""


@contextmanager
def serving() -> Iterator[str]:
    """Serve a new scripted model; its address, without a path."""
    handler = type("ModelHandler", (Handler,), {"model": Model()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
