"""Audits of dumps whose message content stands in log records, beside the spans or wherever."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.cli import tracline

from ...support.conversations.recordings import FOLDER, requests_of

pytestmark = pytest.mark.slow

PACKS = ("customer-service", "tool-hygiene", "privacy")
RECORDED = "openai-opentelemetry-default"
Write = Callable[[Path, Sequence[bytes], Sequence[bytes]], None]


def recorded(folder: str) -> list[bytes]:
    """Return the requests of the recording."""
    return [
        request for file in sorted((FOLDER / RECORDED / folder).iterdir()) for request in requests_of(file)
    ]


SPANS, LOGS = recorded("otlp"), recorded("other")


def framed(requests: Sequence[bytes]) -> bytes:
    """Return requests behind their lengths."""
    return b"".join(len(request).to_bytes(4, "big") + request for request in requests)


def in_one_file(folder: Path, spans: Sequence[bytes], logs: Sequence[bytes]) -> None:
    """Write all requests to one file in protobuf, shuffled."""
    both = [*spans, *logs]
    Random(1).shuffle(both)
    (folder / "all.pb").write_bytes(framed(both))


def logs_first(folder: Path, spans: Sequence[bytes], logs: Sequence[bytes]) -> None:
    """Write each request to a file of its own, those of log records first and backwards."""
    for number, request in enumerate([*reversed(logs), *reversed(spans)]):
        (folder / f"{number:03d}.pb").write_bytes(request)


def in_json(folder: Path, spans: Sequence[bytes], logs: Sequence[bytes]) -> None:
    """Write all as lines of JSON, as the collector's file exporter does with all signals."""
    lines = [MessageToJson(LogsData.FromString(request), indent=None) for request in logs]
    lines += [MessageToJson(TracesData.FromString(request), indent=None) for request in spans]
    (folder / "all.jsonl").write_text("\n".join([*lines, '{"resourceMetrics": [{}]}']))


def logs_twice(folder: Path, spans: Sequence[bytes], logs: Sequence[bytes]) -> None:
    """Write the log records two times, as where their exporter sent them again."""
    (folder / "a.pb").write_bytes(framed([*logs, *spans]))
    (folder / "b.pb").write_bytes(framed([*logs]))


def spans_in_one(folder: Path, spans: Sequence[bytes], logs: Sequence[bytes]) -> None:
    """Write spans and log records to a file each."""
    (folder / "spans.pb").write_bytes(framed(spans))
    (folder / "logs.pb").write_bytes(framed(logs))


def run(*args: str | Path, code: tuple[int, ...] = (0, 1)) -> str:
    """Run a command and return what it printed."""
    result = CliRunner().invoke(tracline, list(map(str, args)))
    assert result.exit_code in code, result.output
    return result.stdout


def audited(source: Path, bundle: Path) -> tuple[str, dict[str, Any]]:
    """Return the verdicts of a source and the summary of what was judged."""
    run("audit", source, "--rules", *PACKS, "--out", bundle)
    summary = json.loads((bundle / "summary.json").read_text())
    return (bundle / "verdicts.jsonl").read_text(), summary["population"]


def made(folder: Path, write: Write, spans: Sequence[bytes], logs: Sequence[bytes]) -> Path:
    """Return a folder with the requests."""
    folder.mkdir()
    write(folder, spans, logs)
    return folder


WRITERS = [in_one_file, logs_first, in_json, logs_twice]


@pytest.mark.parametrize("write", WRITERS)
def test_where_and_in_which_order_log_records_stand_decides_nothing(tmp_path: Path, write: Write) -> None:
    """The verdicts are the same, byte for byte, by audit and by import; what was broken was found."""
    expected, _ = audited(made(tmp_path / "plain", spans_in_one, SPANS, LOGS), tmp_path / "expected")
    assert {json.loads(line)["rule"] for line in expected.splitlines()} >= {
        "authenticate-before-reading",
        "confirm-before-refund",
        "one-call-at-a-time",
    }
    source = made(tmp_path / "source", write, SPANS, LOGS)
    verdicts, population = audited(source, tmp_path / "bundle")
    assert verdicts == expected
    content = 158 * (2 if write is logs_twice else 1)
    assert population["log_records"] == {
        "content": content,
        "unjoined": 0,
        "unlinked": 0,
        "passed_over": 0,
    }
    assert population["metrics"] == (write is in_json)
    run("import", source, "--out", tmp_path / "archive")
    assert audited(tmp_path / "archive", tmp_path / "imported")[0] == expected


def test_log_records_without_their_spans_are_reported(tmp_path: Path) -> None:
    """They are counted in the summary, in what audit prints and in what import prints."""
    source = made(tmp_path / "source", spans_in_one, SPANS[:1], LOGS)
    _, population = audited(source, tmp_path / "bundle")
    unjoined = population["log_records"]["unjoined"]
    assert 0 < unjoined < population["log_records"]["content"] == 158
    printed = run("audit", source, "--rules", *PACKS, "--out", tmp_path / "bundle")
    assert f"{unjoined} log records with content but without their span" in " ".join(printed.split())
    imported = json.loads(run("import", source, "--out", tmp_path / "archive", "--format", "json"))
    assert imported["log_records"] == population["log_records"]
    table = run("import", source, "--out", tmp_path / "other")
    assert f"{unjoined} of these, log records whose span is not in the source" in table


def test_spans_without_their_log_records_are_unknown_and_not_clean(tmp_path: Path) -> None:
    """A rule about message texts is unjudged in each session; none is reported to hold."""
    verdicts, population = audited(made(tmp_path / "source", spans_in_one, SPANS, []), tmp_path / "bundle")
    found = [json.loads(line) for line in verdicts.splitlines()]
    unjudged = {verdict["session_id"] for verdict in found if verdict["verdict"] == "unjudged"}
    assert len(unjudged) == population["sessions"] == 3
