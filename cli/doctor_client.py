"""Client of the `/doctor` endpoint of a running `tracline serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .error import CommandError, command_error
from .missing_package import package_error

if TYPE_CHECKING:
    from ..schemas.instrumentations.lacks import Diagnosed

PATH = "/doctor"
TIMEOUT_S = 10.0
OK, UNAUTHORIZED = 200, 401
ANSWER_BYTES_MAX = 4 << 20
"""Maximum bytes of a response; a hundred instrumentations need far less."""


def ask_doctor(address: str, token: str | None) -> list[Diagnosed]:
    """Return the instrumentations that a running `tracline serve` has seen.

    Redirections are not followed: the token is for this address alone. Raises CommandError: TRL606 if the
    process does not answer or is no `tracline serve`, TRL620 if the HTTP package is not installed.
    """
    import msgspec

    from ..schemas.instrumentations.lacks import Diagnosed

    body = _answer(address, address.rstrip("/") + PATH, token)
    try:
        return msgspec.json.decode(body, type=list[Diagnosed])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _unexpected(address, "returned an unexpected response") from None


def _answer(address: str, url: str, token: str | None) -> bytes:
    """Return the body of the response, up to the maximum size."""
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise package_error(error, "tracline doctor") or error from error

    headers = [] if token is None else [(b"Authorization", f"Bearer {token}".encode())]
    body = bytearray()
    try:
        with httpx.stream("GET", url, headers=headers, timeout=TIMEOUT_S) as answer:
            if answer.status_code != OK:
                raise _refused(address, answer.status_code)
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise _unexpected(address, f"returned more than {ANSWER_BYTES_MAX:,} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        hint = "start `tracline serve`, or use the address that it printed"
        raise command_error("TRL606", address, f"does not answer ({type(error).__name__})", hint) from error
    return bytes(body)


def _refused(address: str, status: int) -> CommandError:
    if status == UNAUTHORIZED:
        hint = "pass the token of that process as --token or TRACLINE_TOKEN"
        return command_error("TRL606", address, "rejected the token, or requires one", hint)
    return _unexpected(address, f"returned status {status}")


def _unexpected(address: str, what: str) -> CommandError:
    hint = "use the address of a running `tracline serve` of this release"
    return command_error("TRL606", address, what, hint)
