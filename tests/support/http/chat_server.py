"""An OpenAI-compatible server on loopback, with scripted answers and a record of what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = Mapping[str, Any]
"""A message of a conversation."""


@dataclass(frozen=True)
class RawAnswer:
    """An answer as it is sent: its status, its headers and its body."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Script = Callable[[list[Message]], Message | RawAnswer]


@dataclass
class ChatServer:
    """A running server: its address, and the requests that it has had, with their headers in lower case."""

    script: Script
    address: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


def choice(message: Message) -> bytes:
    """Return the body of a completion with one choice."""
    return json.dumps({"object": "chat.completion", "choices": [{"index": 0, "message": message}]}).encode()


def spoken(text: str) -> dict[str, Any]:
    """Return a message of the assistant."""
    return {"role": "assistant", "content": text}


def calls(tool: str, call_id: str = "c1", **arguments: object) -> dict[str, Any]:
    """Return a message of the assistant with a call."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@contextmanager
def chat_server(script: Script) -> Iterator[ChatServer]:
    """Run one on a free port; `script` gives the answer to the messages of a request."""
    found = ChatServer(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found.requests.append(body)
            found.headers.append({name.lower(): value for name, value in self.headers.items()})
            found.paths.append(self.path)
            answer = found.script(body["messages"])
            if not isinstance(answer, RawAnswer):
                answer = RawAnswer(body=choice(answer))
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(answer.body)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *_args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found.address = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
