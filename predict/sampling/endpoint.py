"""The address of an OpenAI-compatible model; this module asks it, within limits, and nothing else.

Errors have the status of an answer, its error code and what it lacks, and never its text or the key.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from threading import Timer
from typing import Any, cast

import httpx
import orjson

from ...schemas.chat.encode import ChatMessage
from ..error import PredictError
from .reply import ChatModel, unusable

TIMEOUT_S = 120.0
"""Seconds that one answer may take as a whole."""
CONNECT_S = 10.0
"""Seconds to connect."""
RESPONSE_BYTES_MAX = 4 << 20
"""Bytes of an answer."""
TRIES = 4
"""Requests for one answer: the first, and further ones where the model was unreachable or busy."""
WAIT_S, WAIT_MAX_S = 0.5, 20.0
"""Seconds before the second request, doubled before each later one; and the most that answers may ask for."""

BUSY = frozenset({408, 409, 425, 429})
"""Statuses, beside those from 500 on, after which a request is tried again."""

PORT_MAX = 65_535
PATH = "/chat/completions"
_CONNECTED = ("connection.connect_tcp.complete", "connection.start_tls.complete")
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model behind an address, such as `https://models.example/v1`.

    `name` is that of the model there. `key` is sent as a bearer token. `more` are further members of each
    request, as the `tools` of the agent. `wait` waits for some seconds, and `clock` counts them.
    """

    address: str
    name: str = "default"
    key: str | None = field(default=None, repr=False)
    temperature: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout_s: float = TIMEOUT_S
    wait: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def __post_init__(self) -> None:
        check_address(self.address)
        if not (self.key or "").isascii() or not (self.key or "x").isprintable():
            raise unusable("the key has characters that no header can carry", self.where)

    @property
    def where(self) -> str:
        """Return the address without what may be secret: a user, a password or a query."""
        url = httpx.URL(self.address)
        return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"

    def __call__(self, messages: Sequence[ChatMessage]) -> Mapping[str, Any]:
        """Return the model's next message.

        Raises PredictError (TRL821) where the answer is none, is too long, takes too long, or stays away.
        """
        body: dict[str, Any] = {"model": self.name, "messages": list(messages)}
        if self.temperature is not None:
            body["temperature"] = self.temperature
        content = orjson.dumps(body | dict(self.more))
        what = ""
        for number in range(TRIES):
            try:
                status, wait_s, answer = self._ask(content)
            except httpx.RequestError as error:
                what, wait_s = f"no answer ({type(error).__name__})", None
            else:
                if httpx.codes.is_success(status):
                    return self._message(answer)
                what = f"answered {status}{_code(answer)}"
                if status not in BUSY and not httpx.codes.is_server_error(status):
                    break
            if number < TRIES - 1:
                self.wait(min(WAIT_S * 2**number if wait_s is None else wait_s, WAIT_MAX_S))
        raise unusable(what, self.where)

    def _ask(self, content: bytes) -> tuple[int, float | None, bytes]:
        """Return the status of an answer, the seconds that it asks to wait, and its bytes, within limits."""
        url = httpx.URL(self.address)
        path = url.path.rstrip("/")
        url = url.copy_with(path=path if path.endswith(PATH) else f"{path}{PATH}")
        # Compressed answers could grow without limit.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        timeout = httpx.Timeout(self.timeout_s, connect=CONNECT_S)
        # The client limits each read, so an answer may come byte by byte for ever.
        with _TimeLimit(self.timeout_s) as limit, httpx.Client(timeout=timeout) as client:
            request = client.build_request(
                "POST", url, content=content, headers=headers, extensions={"trace": limit.trace}
            )
            try:
                return self._read(client.send(request, stream=True))
            except httpx.RequestError:
                if limit.is_over:
                    raise self._too_late() from None
                raise

    def _read(self, answer: httpx.Response) -> tuple[int, float | None, bytes]:
        """Return the status of an answer, the seconds that it asks to wait, and its bytes, within limits."""
        end, found = self.clock() + self.timeout_s, bytearray()
        with closing(answer):
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise unusable("the answer is compressed, which was not asked for", self.where)
            for part in answer.iter_raw():
                found += part
                if len(found) > RESPONSE_BYTES_MAX:
                    raise unusable(f"the answer has more than {RESPONSE_BYTES_MAX:,} bytes", self.where)
                if self.clock() > end:
                    raise self._too_late()
            return answer.status_code, _seconds(answer.headers.get("retry-after")), bytes(found)

    def _too_late(self) -> PredictError:
        return unusable(f"the answer took more than {self.timeout_s:g} s", self.where)

    def _message(self, answer: bytes) -> Mapping[str, Any]:
        """Return the message of the first choice."""
        try:
            found: object = orjson.loads(answer)
        except orjson.JSONDecodeError:
            raise unusable("the answer is no JSON", self.where) from None
        choices = cast("dict[str, Any]", found).get("choices") if isinstance(found, dict) else None
        first = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
        message = cast("dict[str, Any]", first).get("message") if isinstance(first, dict) else None
        if not isinstance(message, dict):
            raise unusable("the answer is JSON without choices[0].message", self.where)
        return cast("Mapping[str, Any]", message)


class _TimeLimit:
    """A limit of seconds for what is done in its block, after which the connections made there end.

    `trace` is the extension of httpx by which it knows these. `is_over` is true once it has ended them.
    """

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._connections: list[Any] = []
        self._timer = Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> _TimeLimit:
        self._timer.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._timer.cancel()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Take note of a connection, also once it is encrypted: that is another socket."""
        if event in _CONNECTED:
            self._connections.append(info["return_value"].get_extra_info("socket"))
            if self.is_over:
                self._end()

    def _end(self) -> None:
        self.is_over = True
        for connection in self._connections:
            with suppress(OSError):
                # An encrypted socket's own method would take its state from the thread that reads.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


def model_at(address: str, temperature: float | None) -> ChatModel:
    """Return the model behind an address. Raises PredictError (TRL821) for an address that is none."""
    return ModelEndpoint(address, temperature=temperature)


def check_address(address: str) -> None:
    """Raise PredictError (TRL821) unless an address is an absolute one of HTTP. The error has none of it."""
    try:
        url = httpx.URL(address)
        url.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError):
        url = httpx.URL("")
    is_whole = url.scheme in {"http", "https"} and url.host and (url.port or 1) <= PORT_MAX
    if not is_whole or not address.isprintable() or " " in address:
        raise unusable("the address is no absolute one of HTTP, as http://127.0.0.1:8080/v1")


def _code(answer: bytes) -> str:
    """Return the error's code in parentheses if it is one short word, else nothing."""
    try:
        found: object = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return ""
    error = cast("dict[str, Any]", found).get("error") if isinstance(found, dict) else None
    named = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    codes = (named.get("code"), named.get("type"))
    return next((f" ({code})" for code in codes if isinstance(code, str) and _CODE.fullmatch(code)), "")


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; a date has none."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
