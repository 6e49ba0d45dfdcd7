"""Recordings of frameworks as fixtures: cut small, and without anything of the machine they were made on."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard
from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .framework import ENVIRONMENTS, HERE, ROOT

FOLDER = HERE / "recordings"
RESOURCE = ("service.name", "telemetry.sdk.language")
"""The attributes of a resource that stay."""
CUT = ("exception.stacktrace", "code.filepath", "code.file.path", "thread.name", "thread.id")
"""Attributes of spans and their events that nobody reads, and that name files or threads."""
LENGTH = 4
"""Bytes of the length before each request of a dump."""


def machine() -> list[tuple[str, str]]:
    """Return what names this machine, each with what stands instead."""
    return [
        (str(ENVIRONMENTS), "/environments"),
        (str(ROOT), "/app"),
        (sys.base_prefix, "/python"),
        (str(Path.home()), "/home"),
        (socket.gethostname(), "host"),
    ]


def save(run: Path, name: str) -> Path:
    """Write what a run recorded as a fixture of that name; its folder."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "otlp").mkdir(parents=True)
    traces = [trimmed(file, ExportTraceServiceRequest()) for file in sorted((run / "otlp").iterdir())]
    write_dump(folder / "otlp" / "requests.pb.zst", traces)
    logs = sorted((run / "other").glob("*_v1_logs.pb")) if (run / "other").exists() else []
    if logs:
        (folder / "other").mkdir()
        write_dump(
            folder / "other" / "v1_logs.pb.zst", [trimmed(file, ExportLogsServiceRequest()) for file in logs]
        )
    shutil.copy(run / "truth.json", folder)
    return folder


def trimmed(file: Path, request: Any) -> bytes:
    """Return a recorded request without what is of the machine, as protobuf."""
    if file.suffix == ".json":
        json_format.Parse(hex_ids_as_base64(file.read_text()), request)
    else:
        request.ParseFromString(file.read_bytes())
    for resource in getattr(request, "resource_spans", None) or request.resource_logs:
        stays = [pair for pair in resource.resource.attributes if pair.key in RESOURCE]
        del resource.resource.attributes[:]
        resource.resource.attributes.extend(stays)
    clean(request)
    return request.SerializeToString()


def hex_ids_as_base64(text: str) -> str:
    """Return OTLP's JSON with ids as protobuf's JSON has them."""
    import base64

    def encoded(match: re.Match[str]) -> str:
        return f'"{match[1]}":"{base64.b64encode(bytes.fromhex(match[2])).decode()}"'

    return re.sub(r'"(traceId|spanId|parentSpanId)"\s*:\s*"([0-9a-fA-F]*)"', encoded, text)


def clean(message: Message) -> None:
    """Cut attributes that nobody reads, and write over what names this machine, in all of a message."""
    for field, value in message.ListFields():
        if field.name == "attributes":
            stays = [pair for pair in value if pair.key not in CUT]
            del value[:]
            value.extend(stays)
        if field.type == field.TYPE_STRING and not field.is_repeated:
            setattr(message, field.name, without_machine(value))
        elif field.type == field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                clean(inner)


def without_machine(text: str) -> str:
    """Return a text without the names of this machine."""
    for name, instead in machine():
        text = text.replace(name, instead)
    return text


def write_dump(file: Path, requests: list[bytes]) -> None:
    """Write requests to a dump, each behind its length, compressed."""
    data = b"".join(len(request).to_bytes(LENGTH, "big") + request for request in requests)
    file.write_bytes(zstandard.ZstdCompressor(level=19).compress(data))


def requests_of(file: Path) -> Iterator[bytes]:
    """Yield the requests of a dump."""
    data = zstandard.ZstdDecompressor().decompress(file.read_bytes())
    while data:
        size = int.from_bytes(data[:LENGTH], "big")
        yield data[LENGTH : LENGTH + size]
        data = data[LENGTH + size :]


def truth_of_recording(name: str) -> dict[str, Any]:
    """Return what really happened in a recording."""
    return json.loads((FOLDER / name / "truth.json").read_text())


def names() -> list[str]:
    """Return the names of all recordings."""
    return sorted(folder.name for folder in FOLDER.iterdir() if (folder / "truth.json").exists())
