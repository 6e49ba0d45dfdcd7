"""Span dumps in files: every framing gives the same requests, and what is broken is named with its place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.batch.sources import json_files as jsonfile
from tracline.batch.sources import span_files as otlpfile
from tracline.batch.sources.file_format import head
from tracline.batch.sources.json_files import json_values
from tracline.batch.sources.span_files import holds_spans, requests
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.tolerant_json import read_json

TRACE = "4bedea77bb33b9c5f280371eae21ea97"


def pair(number: int) -> tuple[bytes, dict[str, Any]]:
    """The same request with so many spans, in protobuf and in OTLP JSON."""
    whole = TracesData()
    scope = whole.resource_spans.add().scope_spans.add()
    spans: list[Any] = []
    for index in range(1, number + 1):
        scope.spans.add(trace_id=bytes.fromhex(TRACE), span_id=index.to_bytes(8, "big"), name="chat é")
        spans.append({"traceId": TRACE, "spanId": f"{index:016x}", "name": "chat é"})
    return whole.SerializeToString(), {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


PAIRS = [pair(number) for number in (1, 3, 2)]
PACKED = [packed for packed, _ in PAIRS]
LINES = [json.dumps(value, ensure_ascii=False).encode() for _, value in PAIRS]


def framed(parts: list[bytes]) -> bytes:
    """Each part behind its length."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def written(path: Path, data: bytes) -> Path:
    """A file that holds the data."""
    path.write_bytes(data)
    return path


def sizes(path: Path) -> list[tuple[str, int]]:
    """The position and number of spans of each request; there is no flaw."""
    found = list(requests(path))
    assert [flaw for _, request in found for flaw in request.flaws] == []
    return [(position, len(request.spans)) for position, request in found]


def flaws(path: Path) -> list[tuple[str, str]]:
    """Place and code of each flaw in a file."""
    return [(flaw.place, flaw.code) for _, request in requests(path) for flaw in request.flaws]


def known(path: Path) -> bool:
    """Return whether a file is known to hold spans, asked as one who finds files asks."""
    return holds_spans(path, head(path)[1])


def as_it_is(data: bytes) -> bytes:
    """No compression."""
    return data


@pytest.mark.parametrize("pack", [as_it_is, gzip.compress, zstandard.compress])
def test_every_framing_gives_the_same_requests(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """JSON lines, and framed protobuf and zstd, are recognised by content, packed as a whole or not."""
    frames = [zstandard.compress(line) for line in LINES]
    files = {
        "lines": (b"\n".join(LINES) + b"\n", ["line 1", "line 2", "line 3"]),
        "protobuf": (framed(PACKED), ["byte 0", *offsets(PACKED)]),
        "zstd of JSON": (framed(frames), ["byte 0", *offsets(frames)]),
        "zstd of protobuf": (framed([zstandard.compress(part) for part in PACKED]), None),
    }
    expected: list[Decoded] | None = None
    for name, (data, positions) in files.items():
        path = written(tmp_path / name, pack(data))
        assert known(path)
        found = list(requests(path))
        assert [len(request.spans) for _, request in found] == [1, 3, 2]
        assert positions is None or [position for position, _ in found] == positions
        expected = expected or [request for _, request in found]
        assert [request for _, request in found] == expected
        assert flaws(path) == []


def offsets(parts: list[bytes]) -> list[str]:
    """Return where the second and the third of three framed parts begin."""
    first = 4 + len(parts[0])
    return [f"byte {first}", f"byte {first + 4 + len(parts[1])}"]


def test_single_values_are_read(tmp_path: Path) -> None:
    """A file may be one request in protobuf, or in JSON however that is laid out, or a dump."""
    value = PAIRS[1][1]
    spans = value["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for name, data in {
        "protobuf": PACKED[1],
        "one line": LINES[1],
        "indented": json.dumps(value, indent=2).encode(),
        "flush left": json.dumps(value, indent=0).encode(),
        "after a mark": b"\xef\xbb\xbf" + LINES[1] + b"\n",
        "blank lines": b"\n \n" + json.dumps(value, indent=2).encode(),
        "bare array": json.dumps(value["resourceSpans"]).encode(),
        "spans": json.dumps({"spans": spans}, indent=1).encode(),
        "late": json.dumps({"notes": ["x" * 10] * 5_000, "spans": spans}).encode(),
        "very late": json.dumps([{"name": "x" * 2_000_000, **spans[0]}, *spans[1:]]).encode(),
    }.items():
        path = written(tmp_path / name, data)
        assert known(path), name
        assert sizes(path) == [("whole file", 3)], name


def test_what_a_console_printed_is_read(tmp_path: Path) -> None:
    """Indented spans one behind another, as Python's console exporter prints them, are read one by one."""
    spans = [span for _, value in PAIRS for span in value["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    shown = [{"context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{span['spanId']}"}} for span in spans]
    texts = [json.dumps(span, indent=4) for span in shown]
    path = written(tmp_path / "console.txt", "\n".join(texts).encode())
    assert known(path)
    assert sizes(path) == [(f"line {1 + 6 * index}", 1) for index in range(6)]
    texts[2] = texts[2].replace('"span_id"', "span_id")
    broken = written(tmp_path / "broken.txt", "\n\n".join(texts).encode())
    assert known(broken)
    assert flaws(broken) == [("line 15", "json")]
    assert sum(len(request.spans) for _, request in requests(broken)) == 5


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 40])
def test_a_file_that_a_crash_cut_off_is_read_to_there(tmp_path: Path, cut: int) -> None:
    """The last record's rest is reported with the byte (or line) at which it begins; all before is read."""
    for parts in (PACKED, [zstandard.compress(line) for line in LINES]):
        whole = framed(parts)
        begin = len(framed(parts[:2]))
        path = written(tmp_path / "frames", whole[: begin + cut])
        assert known(path)
        assert flaws(path) == [(f"byte {begin}", "otlp-cut")]
        assert [len(request.spans) for _, request in requests(path) if request.spans] == [1, 3]
    path = written(tmp_path / "lines", b"\n".join(LINES)[:-cut])
    assert known(path)
    assert flaws(path) == [("line 3", "json")]
    assert [len(request.spans) for _, request in requests(path) if request.spans] == [1, 3]


def test_what_is_broken_in_the_middle_is_reported_and_passed(tmp_path: Path) -> None:
    """An unreadable frame, line or span is reported with its whole place; those that follow are read."""
    bad = TracesData.FromString(PACKED[1])
    bad.resource_spans[0].scope_spans[0].spans[1].trace_id = b"short"
    frames = written(tmp_path / "frames", framed([PACKED[0], b"\xff" * 9, bad.SerializeToString()]))
    start = 4 + len(PACKED[0])
    assert flaws(frames) == [
        (f"byte {start}", "otlp-protobuf"),
        (f"byte {start + 13}, resource 1, scope 1, span 2", "otlp-trace-id"),
    ]
    assert sum(len(request.spans) for _, request in requests(frames)) == 3
    lines = [LINES[0], b"{broken", LINES[1], b'{"resourceProfiles": []}', b'{"role": "user"}', b"17"]
    path = written(tmp_path / "lines", b"\n".join(lines))
    assert flaws(path) == [
        ("line 2", "json"),
        ("line 4", "otlp-signal"),
        ("line 5", "otlp-shape"),
        ("line 6", "otlp-shape"),
    ]
    first = written(tmp_path / "first line broken", b"\n".join([b'{"resourceSpans": [', *LINES]))
    assert known(first)
    assert flaws(first) == [("line 1", "json")]
    assert sum(len(request.spans) for _, request in requests(first)) == 6


@pytest.mark.slow
def test_damaged_files_are_reported(tmp_path: Path) -> None:
    """Damaged compression, JSON that never ends and text that is none are flaws of the whole file."""
    data = gzip.compress(b"\n".join(LINES * 200), mtime=0)
    path = written(tmp_path / "half.gz", data[: len(data) // 2])
    assert flaws(path)[-1] == ("whole file", "compressed")
    assert flaws(written(tmp_path / "open", b'{\n"resourceSpans": [\n')) == [("whole file", "json")]
    assert flaws(written(tmp_path / "text", b"hello")) == [("whole file", "json")]
    assert flaws(written(tmp_path / "value", b"17")) == [("whole file", "otlp-shape")]
    bomb = written(tmp_path / "bomb.gz", gzip.compress(b" " * 20_000_000, mtime=0))
    assert flaws(bomb) == [("whole file", "json")]
    assert not known(bomb)


def test_files_and_lines_beyond_their_limits_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line, a JSON value or a request that is too large is reported, and the other lines are read."""
    monkeypatch.setattr(jsonfile, "LINE_BYTES_MAX", 200)
    monkeypatch.setattr(jsonfile, "JSON_BYTES_MAX", 300)
    monkeypatch.setattr(otlpfile, "REQUEST_BYTES_MAX", 20)
    assert [len(line) > 200 for line in LINES] == [False, True, True]
    lines = written(tmp_path / "lines", b"\n".join([LINES[0], LINES[1], LINES[0]]))
    assert flaws(lines) == [("line 2", "json-size")]
    assert sum(len(request.spans) for _, request in requests(lines)) == 2
    value = written(tmp_path / "value", json.dumps(PAIRS[1][1], indent=2).encode())
    assert flaws(value) == [("whole file", "json-size")]
    assert flaws(written(tmp_path / "request", PACKED[0])) == [("whole file", "otlp-size")]


@pytest.mark.parametrize(
    "data",
    [
        b'[{"role": "user", "content": "hello"}]',
        b'{"messages": [{"role": "user"}], "trace_id": "t", "span_id": "s"}\n' * 2,
        b'{"simulations": [{"messages": []}], "spans": []}',
        b'[\n {\n  "traj": [\n   {\n    "role": "user"\n',
        b"# Notes\n\n[1, 2]\n",
        b"\n\n\n# Notes\n",
        b"[]",
        b"",
        b"17",
    ],
)
def test_other_files_are_not_taken_for_spans(tmp_path: Path, data: bytes) -> None:
    """Chat logs in any layout, text, and JSON that holds neither are left to others."""
    assert not known(written(tmp_path / "log.json", data))


def test_values_of_a_file_are_read_with_the_given_reader(tmp_path: Path) -> None:
    """Values come with their positions, whatever they are; a file that is no JSON raises."""
    path = written(tmp_path / "values", b'[1]\n\n{"a": 2}\r\n')
    assert list(json_values(path, read_json)) == [("line 1", [1], 4), ("line 3", {"a": 2}, 10)]
    with pytest.raises(ValueError, match="not JSON"):
        list(json_values(written(tmp_path / "text", b"hello\n"), read_json))
