"""`tracline import` of many small sources: files that they share, and crashes while those are entered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tracline.archive.manifest import MANIFEST
from tracline.batch.audit.audit import audit
from tracline.batch.importing import small_sources
from tracline.batch.importing.run import ImportResult, import_source
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population, discover
from tracline.rules.packs.load import load_packs

pytestmark = pytest.mark.slow

SOURCES = 40
PACK = """
pack: small
propositions: {call: 'kind == "tool_call"', asked: 'kind == "user"'}
rules: [{id: asked, formula: call -> once asked}]
"""


def put_chats(folder: Path, count: int = SOURCES) -> None:
    """Write chat logs of one conversation each, on two days; every fifth repeats the one before."""
    for number in range(count):
        original = number - (number % 5 == 4)
        when = f"2026-01-0{1 + original % 2}T10:00:{original:02d}"
        call = {"id": "c", "function": {"name": "refund", "arguments": "{}"}}
        talk = [
            {"role": "user", "content": f"question {original}", "timestamp": when},
            {"role": "assistant", "tool_calls": [call], "timestamp": when},
        ]
        text = json.dumps({"id": f"s{original}", "messages": talk[original % 3 == 0 :]})
        (folder / f"chat-{number:03d}.json").write_text(text, encoding="utf-8")


def put_dumps(folder: Path, count: int = SOURCES) -> None:
    """Write dumps of two spans, the second in the next dump's trace: parents stand in another file."""
    for number in range(count):
        spans = [span(number, 0), span((number + 1) % count, 1)]
        text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
        (folder / f"dump-{number:03d}.json").write_text(text, encoding="utf-8")


def span(trace: int, number: int) -> dict[str, Any]:
    """Return the agent's span of a trace (0), or a tool's span below it."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": f"spans-{trace}"}
    if number:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"}
    start = 1_767_225_600_000_000_000 + trace * 3_600_000_000_000 + number
    return {
        "traceId": f"{trace + 1:032x}",
        "spanId": f"{trace * 2 + number + 1:016x}",
        "parentSpanId": f"{trace * 2 + 1:016x}" if number else "",
        "name": "step",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


PUT = {"chats": put_chats, "dumps": put_dumps}


def rows(archive: Path) -> pl.DataFrame:
    """Return all rows of an archive that readers take, in one order."""
    parts = [pl.read_parquet(part.path) for part in discover(archive, Population())]
    return pl.concat(parts).sort("session_id", "time", "kind")


def verdicts(source: Path, bundle: Path) -> bytes:
    """Return the verdicts of an audit of a source."""
    pack = bundle.with_suffix(".yaml")
    pack.write_text(PACK, encoding="utf-8")
    audit(source, load_packs([str(pack)]), bundle, AuditOptions())
    return (bundle / "verdicts.jsonl").read_bytes()


@pytest.fixture(params=PUT)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder of many small sources of one kind."""
    folder = tmp_path / "in"
    folder.mkdir()
    PUT[request.param](folder)
    return folder


def shape(imported: ImportResult) -> tuple[int, int, int, int]:
    """Return how many files were written and known, and how many sessions and repeats were met."""
    population = imported.population
    return len(imported.written), len(imported.known), population.sessions, population.duplicates


def test_small_sources_share_a_file_a_day(source: Path, tmp_path: Path) -> None:
    """Forty sources of two days become two files with the sources' events; each is known again."""
    out = tmp_path / "out"
    first = import_source(source, out)
    sessions, repeats = (32, 8) if first.population.sessions else (0, 0)
    assert shape(first) == (2, 0, sessions, repeats)
    found = verdicts(source, tmp_path / "of-source")
    assert found.count(b"\n") > 10
    assert verdicts(out, tmp_path / "of-archive") == found
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert shape(import_source(source, out)) == (0, SOURCES, 0, 0)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_no_gap_is_counted_where_sources_share_files(source: Path, tmp_path: Path) -> None:
    """The members of a shared file are its offsets, from the first to the last."""
    import_source(source, tmp_path / "out")
    population = Population()
    discover(tmp_path / "out", population)
    assert population.gaps == 0


def test_groups_have_limits(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that are too many for one file of a day are written in several, with the same events."""
    import_source(source, tmp_path / "one")
    monkeypatch.setattr(small_sources, "MEMBERS_MAX", 7)
    assert len(import_source(source, tmp_path / "several").written) > 7
    assert rows(tmp_path / "several").equals(rows(tmp_path / "one"))


def test_a_large_source_has_files_of_its_own(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is shared if every source is large; the events are the same."""
    import_source(source, tmp_path / "shared")
    monkeypatch.setattr(small_sources, "SMALL_ROWS", 1)
    monkeypatch.setattr("tracline.batch.importing.run.SMALL_ROWS", 1)
    apart = import_source(source, tmp_path / "apart")
    assert len(apart.written) >= 32
    assert {entry.source.name for entry in apart.written} <= {path.name for path in source.iterdir()}
    assert rows(tmp_path / "apart").equals(rows(tmp_path / "shared"))


def test_a_crash_while_shared_files_are_entered_loses_and_doubles_nothing(
    source: Path, tmp_path: Path
) -> None:
    """Wherever the manifest is cut off, readers see all of the sources or none, and an import finishes."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    import_source(source, whole)
    expected, manifest = rows(whole), (whole / MANIFEST).read_bytes()
    ends = [place + 1 for place, byte in enumerate(manifest) if byte == ord("\n")]
    assert len(ends) >= 4
    for end in [0, *(place for line in ends for place in (line - 9, line))]:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(whole, out)
        (out / MANIFEST).write_bytes(manifest[:end])
        entered = [part for part in discover(tmp_path, Population()) if part.name.startswith("out/")]
        assert len(entered) in (0, 2)
        import_source(source, out)
        assert rows(out).equals(expected)
        assert len(import_source(source, out).known) == SOURCES


def test_another_source_after_a_crash_is_written_beside_what_was_cut_off(tmp_path: Path) -> None:
    """Conversations of a shared file that was not finished count as never imported."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    put_chats(source)
    import_source(source, out)
    manifest = out / MANIFEST
    manifest.write_bytes(b"".join(manifest.read_bytes().splitlines(keepends=True)[:3]))
    put_chats(source, SOURCES + 10)
    again = import_source(source, out)
    assert shape(again) == (2, 0, 40, 10)
    assert rows(out)["session_id"].n_unique() == 40
