"""Span dumps in files: output of the collector's file exporter, single requests, and JSON dumps of SDKs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

from pydantic_core import from_json

from ...schemas.chat.find import InputFlaw, is_object
from ...schemas.otlp.decode import decode_json, decode_request, is_span_dump, read_span_json
from ...schemas.otlp.decoded import Decoded
from ...schemas.otlp.framing import REQUEST_BYTES_MAX, Frame, Layout, frames, layout_of
from .json_files import BOM, JSON_BYTES_MAX, WHOLE, first_text, json_values
from .open import open_bytes

_HEAD_BYTES = 4_096
_LINES_TRIED = 20
_JSON_STARTS = (b"{", b"[")


def requests(path: Path) -> Iterator[tuple[str, Decoded]]:
    """Yield the decoded requests of a file, each with its position: `line 3`, `byte 4711`.

    The file is plain, gzip or zstd. It contains length-delimited requests in protobuf or zstd, one request in
    protobuf, JSON lines, or a JSON value. The places of flaws begin with the position. A flaw of the file
    itself is yielded as a request without spans; nothing is raised for it.
    """
    try:
        with closing(open_bytes(path)) as stream:
            start = stream.read(_HEAD_BYTES)
        layout = layout_of(start)
        if not start:
            return
        if layout is Layout.FRAMES:
            yield from _framed(path)
        elif layout is Layout.REQUEST:
            yield _single(path)
        else:
            yield from _json(path)
    except ValueError as error:
        yield _flawed(InputFlaw(WHOLE, "json", f"cannot be read: {error}"))
    except OSError:
        text = "cannot be unpacked: the compressed data is damaged or cut off"
        yield _flawed(InputFlaw(WHOLE, "compressed", text))


def holds_spans(path: Path, start: bytes) -> bool:
    """Return whether a file that starts with these (decompressed) bytes contains spans.

    If the start does not distinguish JSON from a chat log, more of the file is read, up to all of it.
    """
    if layout_of(start) is not None:
        return True
    if start.removeprefix(BOM).lstrip()[:1] not in _JSON_STARTS:
        return False
    for size in (len(start), 1 << 20, JSON_BYTES_MAX):
        try:
            with closing(open_bytes(path)) as stream:
                head = stream.read(size)
        except (OSError, ValueError):
            return False
        value = _beginning(head.removeprefix(BOM), whole=len(head) < size)
        if is_span_dump(value):
            return True
        if len(head) < size or _is_chat(value):
            return False
    return False


def _framed(path: Path) -> Iterator[tuple[str, Decoded]]:
    with closing(open_bytes(path)) as stream:
        for frame in frames(stream.read):
            if isinstance(frame, Frame):
                position = f"byte {frame.offset}"
                yield position, _placed(decode_request(frame.data), position)
            else:
                yield _flawed(frame)


def _single(path: Path) -> tuple[str, Decoded]:
    with closing(open_bytes(path)) as stream:
        data = stream.read(REQUEST_BYTES_MAX + 1)
    if len(data) > REQUEST_BYTES_MAX:
        return _flawed(
            InputFlaw(WHOLE, "otlp-size", f"is one request of more than {REQUEST_BYTES_MAX} bytes")
        )
    return WHOLE, _placed(decode_request(data), WHOLE)


def _json(path: Path) -> Iterator[tuple[str, Decoded]]:
    for found in json_values(path, read_span_json):
        if isinstance(found, InputFlaw):
            yield _flawed(found)
        else:
            position, value, _ = found
            yield position, _placed(decode_json(value), position)


def _flawed(flaw: InputFlaw) -> tuple[str, Decoded]:
    return flaw.place, Decoded(flaws=(flaw,))


def _placed(decoded: Decoded, position: str) -> Decoded:
    """Return the request with its position before the places of its flaws."""
    if not decoded.flaws:
        return decoded
    above = "" if position == WHOLE else f"{position}, "
    flaws = [
        replace(flaw, place=position if flaw.place == "request" else f"{above}{flaw.place}")
        for flaw in decoded.flaws
    ]
    return replace(decoded, flaws=tuple(flaws))


def _beginning(head: bytes, *, whole: bool) -> object:
    """Return the first value of a JSON text as far as these bytes contain it; None if it cannot be read.

    `whole` is whether the bytes are all of the text.
    """
    for text in (head.lstrip().partition(b"\n")[0], first_text(head), head if whole else b""):
        try:
            return read_span_json(text)
        except ValueError:
            continue
    try:
        # Ignore a character that was cut in two.
        return cast("object", from_json(head.decode(errors="ignore"), allow_partial="trailing-strings"))
    except ValueError:
        return next(filter(is_span_dump, map(_value, head.split(b"\n", _LINES_TRIED)[:_LINES_TRIED])), None)


def _value(line: bytes) -> object:
    try:
        return read_span_json(line)
    except ValueError:
        return None


def _is_chat(value: object) -> bool:
    """Return whether the first value of a file identifies it as a chat log."""

    if is_object(value):
        return bool({"messages", "traj", "simulations", "role"} & value.keys())
    members = cast("list[object]", value)[:1] if isinstance(value, list) else []
    return any(isinstance(member, list) or _is_chat(member) for member in members)
