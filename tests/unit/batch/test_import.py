"""`tracline import` and what it stands on: finding sources, reading logs, writing the archive."""

import gzip
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tracline.archive.error import SourceError
from tracline.archive.manifest import MANIFEST, ManifestSource, read_manifest
from tracline.archive.writer import archive_writer
from tracline.batch.importing.run import ImportResult, import_source
from tracline.batch.prepare import chat_frames as chatframe
from tracline.batch.sources import json_files as jsonfile
from tracline.batch.sources.chat_files import read_conversations
from tracline.batch.sources.discover import Population, discover
from tracline.batch.sources.file_format import FileFormat
from tracline.cli import tracline
from tracline.schemas.chat.find import InputFlaw, RecordedConversation
from tracline.schemas.frames.events import EVENT_SCHEMA


def talk(number: int, turns: int = 2) -> list[dict[str, Any]]:
    """A conversation that differs from those of other numbers, with a call and a result in each turn."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "policy"}]
    for turn in range(turns):
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": f'{{"n":{number}}}'}}
        messages += [
            {"role": "user", "content": f"question {number}.{turn}"},
            {"role": "assistant", "content": None, "tool_calls": [call, call]},
            {"role": "tool", "tool_call_id": "c", "content": "found"},
            {"role": "tool", "tool_call_id": "c", "content": "found"},
            {"role": "assistant", "content": f"answer {number}.{turn}"},
        ]
    return messages


def timed(number: int, start: str) -> dict[str, Any]:
    """A conversation with an id of its own whose messages have times."""
    return {"id": f"s{number}", "messages": [{**message, "timestamp": start} for message in talk(number)]}


def put(path: Path, value: object) -> Path:
    """The value as a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def rows(archive: Path) -> pl.DataFrame:
    """All rows of an archive."""
    return pl.concat([pl.read_parquet(archive / entry.file) for entry in read_manifest(archive).entries])


def shape(imported: ImportResult) -> tuple[int, int, int]:
    """Sessions, duplicates, rejected."""
    population = imported.population
    return population.sessions, population.duplicates, population.rejected.total()


def places(path: Path) -> list[str]:
    """The place of each conversation, and place and code of each flaw, of a file."""
    found = list(read_conversations(path))
    return [f"{item.place}: {item.code}" if isinstance(item, InputFlaw) else item.place for item in found]


SHAPES = {
    "one.json": json.dumps(talk(1)),
    "pretty.json": json.dumps(talk(1), indent=2),
    "by-hand.json": "[\n" + ",\n".join(json.dumps(message) for message in talk(1)) + "\n]\n",
    "object.json": json.dumps({"messages": talk(1)}),
    "traj.json": json.dumps([{"traj": talk(1), "task_id": 1}]),
    "tau2.json": json.dumps({"simulations": [{"messages": talk(1)}], "info": {}}),
    "lists.jsonl": json.dumps(talk(1)) + "\n\n" + json.dumps([]) + "\n",
    "objects.jsonl": json.dumps({"messages": talk(1)}) + "\n",
    "one-message.jsonl": json.dumps(talk(1)[1]) + "\n",
    "messages.jsonl": "\n".join(json.dumps(message) for message in talk(1)),
    "marked.json": "\ufeff" + json.dumps(talk(1)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_log_holds_the_same_conversation(tmp_path: Path, name: str) -> None:
    """JSON array, JSON lines of lists, objects or messages, `messages`, `traj`, tau2: the same messages."""
    path = tmp_path / name
    path.write_text(SHAPES[name], encoding="utf-8")
    found = [
        conversation
        for conversation in read_conversations(path)
        if isinstance(conversation, RecordedConversation) and conversation.messages
    ]
    assert [conversation.messages for conversation in found] == [
        talk(1)[1:2] if name == "one-message.jsonl" else talk(1)
    ]


def test_messages_by_lines_are_put_together_by_the_session_they_name(tmp_path: Path) -> None:
    """Lines of several sessions may be mixed; each conversation keeps its order and its id."""
    path = tmp_path / "log.jsonl"
    lines = [{"role": "user", "content": str(n), "session_id": f"s{n % 2}"} for n in range(4)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = [
        conversation
        for conversation in read_conversations(path)
        if isinstance(conversation, RecordedConversation)
    ]
    assert [conversation.header for conversation in found] == [{"session_id": "s0"}, {"session_id": "s1"}]
    assert [conversation.messages for conversation in found] == [[lines[0], lines[2]], [lines[1], lines[3]]]


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: pa.Codec("zstd").compress(data)])
def test_compressed_logs_are_read_by_their_content(tmp_path: Path, pack: Any) -> None:
    """gzip and zstd are looked through whatever the file is called; cut-off data is a flaw."""
    path = tmp_path / "log"
    packed = bytes(pack(json.dumps(talk(1)).encode()))
    path.write_bytes(packed)
    assert [part.format for part in discover(path, Population())] == [FileFormat.CHAT]
    assert places(path) == ["session 1"]
    path.write_bytes(packed[:-12])
    assert [place.partition(": ")[0] for place in places(path)] == ["whole file"]


def test_a_broken_line_costs_that_line(tmp_path: Path) -> None:
    """It is named by its number, also where it is the first."""
    good = json.dumps(talk(1))
    for number in (1, 2, 3):
        lines = [good] * 3
        lines[number - 1] = '{"messages": [{"role": "user'
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        expected = [f"line {n}" for n in (1, 2, 3)]
        expected[number - 1] += ": json"
        assert places(path) == expected


def test_sizes_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line, or a file that is one JSON value, beyond its limit is rejected; other lines are read."""
    monkeypatch.setattr(jsonfile, "LINE_BYTES_MAX", 200)
    monkeypatch.setattr(jsonfile, "JSON_BYTES_MAX", 300)
    short = json.dumps([{"role": "user", "content": "hi"}])
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join([short, json.dumps(["x" * 900]), short]), encoding="utf-8")
    assert places(lines) == ["line 1", "line 2: json-size", "line 3"]
    whole = put(tmp_path / "whole.json", talk(1))
    assert places(whole) == ["whole file: json-size"]


def test_indented_conversations_in_sequence_are_read(tmp_path: Path) -> None:
    """A file may have several indented values one after the other, as for spans."""
    path = tmp_path / "log.json"
    path.write_text("\n".join(json.dumps([message], indent=2) for message in talk(1)[:2]), encoding="utf-8")
    assert places(path) == ["line 1", "line 7"]


def test_a_folder_is_recognised_by_the_content_of_its_files(tmp_path: Path) -> None:
    """Chat logs and Parquet whatever their suffix; a README is skipped, a broken data file rejected."""
    put(tmp_path / "b" / "log.txt", talk(1))
    put(tmp_path / "a.json", talk(2))
    put(tmp_path / ".hidden.json", talk(3))
    pl.DataFrame(schema=EVENT_SCHEMA).write_parquet(tmp_path / "c.data")
    (tmp_path / "README.md").write_text("[![badge](x)]", encoding="utf-8")
    (tmp_path / "broken.parquet").write_bytes(b"PAR")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.json")
    population = Population()
    parts = discover(tmp_path, population)
    assert [(part.name, part.format) for part in parts] == [
        ("a.json", FileFormat.CHAT),
        ("b/log.txt", FileFormat.CHAT),
        ("c.data", FileFormat.PARQUET),
    ]
    assert sorted(population.skipped) == ["README.md", "gone.json", "pipe.json"]
    assert [(reject.file, reject.code) for reject in population.rejects] == [
        ("broken.parquet", "source-kind")
    ]
    assert [part.name for part in discover(f"{tmp_path}/**/*.txt", Population())] == ["log.txt"]


def test_a_source_that_holds_nothing_is_an_error(tmp_path: Path) -> None:
    """A path that is not there, an empty folder, a folder of other files: TRL401 and what to do."""
    (tmp_path / "note.md").write_text("x", encoding="utf-8")
    for source in (tmp_path / "nowhere", tmp_path, tmp_path / "*.json"):
        with pytest.raises(SourceError, match="TRL401") as caught:
            discover(source, Population())
        assert "hint: " in str(caught.value)


def test_an_import_agrees_with_a_plain_loop_over_the_messages(tmp_path: Path) -> None:
    """Sessions, and events by kind, counted from the raw messages; each session has its `end`."""
    sizes = random.Random(7)
    talks = [talk(number, sizes.randint(1, 9)) for number in range(50)]
    put(tmp_path / "in" / "log.json", [{"traj": messages, "trial": 0} for messages in talks])
    imported = import_source(tmp_path / "in", tmp_path / "out")
    expected: Counter[str] = Counter()
    for message in (message for messages in talks for message in messages):
        if message["role"] in ("user", "assistant") and message["content"]:
            expected[message["role"]] += 1
        expected["tool_call"] += len(message.get("tool_calls", ()))
        expected["tool_result"] += message["role"] == "tool"
    assert imported.population.events == expected
    assert shape(imported) == (50, 0, 0)
    archive = rows(tmp_path / "out")
    assert Counter(archive["kind"].to_list()) == expected + Counter(end=50)
    dense = archive.group_by("session_id", "occurrence").agg(
        (pl.col("seq").sort() == pl.int_range(1, pl.len() + 1)).all(), pl.col("kind").sort_by("seq").last()
    )
    assert dense["seq"].all()
    assert set(dense["kind"]) == {"end"}
    assert archive["event_id"].n_unique() == archive.height


def test_importing_again_changes_nothing(tmp_path: Path) -> None:
    """The same content is known, under whatever name; no byte of the archive is another."""
    put(tmp_path / "in" / "log.json", [talk(1), talk(2)])
    import_source(tmp_path / "in", tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    again = import_source(tmp_path / "in", tmp_path / "out")
    copied = put(tmp_path / "copy.json", [talk(1), talk(2)])
    under_another_name = import_source(copied, tmp_path / "out")
    assert (again.known, under_another_name.known) == (["log.json"], ["copy.json"])
    assert shape(again) == shape(under_another_name) == (0, 0, 0)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


def test_a_conversation_that_comes_twice_is_one_session(tmp_path: Path) -> None:
    """In one file, in two files, in two imports: the second copy is a duplicate."""
    put(tmp_path / "in" / "a.json", [talk(1), talk(2), talk(1)])
    put(tmp_path / "in" / "b.json", [talk(2), talk(3)])
    assert shape(import_source(tmp_path / "in", tmp_path / "out")) == (3, 2, 0)
    later = put(tmp_path / "later.json", [talk(3), talk(4), talk(1)])
    assert shape(import_source(later, tmp_path / "out")) == (1, 2, 0)
    assert rows(tmp_path / "out")["session_id"].n_unique() == 4


def test_an_id_that_comes_back_is_another_occurrence_or_renamed(tmp_path: Path) -> None:
    """At another time it is an occurrence of its own; at the same time both are named by their content."""
    first, second = timed(1, "2026-01-01T10:00:00"), timed(1, "2026-01-02T10:00:00")
    clash = {"id": "s1", "messages": timed(2, "2026-01-01T10:00:00")["messages"]}
    imported = import_source(put(tmp_path / "log.json", [first, second, clash, clash]), tmp_path / "out")
    assert shape(imported) == (3, 1, 0)
    assert imported.population.renamed == 2
    found = (
        rows(tmp_path / "out").select("session_id", "occurrence").unique().sort("session_id", "occurrence")
    )
    assert [name[:3] for name in found["session_id"]] == ["s1", "s1~", "s1~"]
    assert rows(tmp_path / "out")["event_id"].is_unique().all()


def test_files_lie_by_day_and_are_entered_in_the_manifest(tmp_path: Path) -> None:
    """Days are UTC days of event time, `unknown` without times; entries have rows, times and offsets."""
    log = [timed(1, "2026-01-01T23:30:00"), timed(2, "2026-01-02T00:30:00+09:00"), talk(3)]
    imported = import_source(put(tmp_path / "my log.json", log), tmp_path / "out", "America/New_York")
    entries = read_manifest(tmp_path / "out").entries
    assert entries == tuple(imported.written)
    assert [entry.file.partition("/")[0] for entry in entries] == [
        "day=2026-01-01",
        "day=2026-01-02",
        "day=unknown",
    ]
    assert [(entry.rows, entry.events, entry.offsets) for entry in entries] == [(13, 12, (0, 2))] * 3
    assert entries[1].first_time == entries[1].last_time == "2026-01-02T04:30:00.000000000Z"
    assert entries[1].file.endswith("-0-000000000000-000000000002.parquet")
    assert "/my-log.json-" in entries[1].file
    assert entries[0].source.timezone == "America/New_York"


@pytest.mark.slow
def test_a_file_that_is_cut_off_is_finished_by_the_next_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash between two files the torn line is dropped, and nothing is missing or double."""
    monkeypatch.setattr(chatframe, "FRAME_EVENTS_MAX", 20)
    source = put(tmp_path / "log.json", [talk(number) for number in range(10)])
    import_source(source, tmp_path / "whole")
    import_source(source, tmp_path / "out")
    manifest = tmp_path / "out" / MANIFEST
    lines = manifest.read_bytes().splitlines(keepends=True)
    assert len(lines) == 6
    manifest.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    unlisted = Population()
    assert len(discover(tmp_path / "out", unlisted)) == 2
    assert unlisted.rejected == {"archive-unlisted": 3}
    assert len(import_source(source, tmp_path / "out").written) == 3
    assert rows(tmp_path / "out").equals(rows(tmp_path / "whole"))
    assert import_source(source, tmp_path / "out").known == ["log.json"]


def test_an_archive_and_its_manifest_agree_or_it_is_an_error(tmp_path: Path) -> None:
    """A listed file that is gone and a line that is none are TRL403; another time zone is TRL404."""
    source = put(tmp_path / "log.json", [talk(1)])
    (written,) = import_source(source, tmp_path / "out").written
    with pytest.raises(SourceError, match="TRL404"):
        import_source(source, tmp_path / "out", "Europe/Berlin")
    (tmp_path / "out" / written.file).unlink()
    with pytest.raises(SourceError, match="TRL403"):
        discover(tmp_path / "out", Population())
    (tmp_path / "out" / MANIFEST).write_text("{}\n", encoding="utf-8")
    with pytest.raises(SourceError, match="TRL403"):
        read_manifest(tmp_path / "out")


def test_the_latest_watermark_of_each_live_source_is_stored(tmp_path: Path) -> None:
    """It is read back per source and partition; a line that a crash cut off leaves the one before."""
    ours, theirs = ManifestSource("serve", "a" * 64), ManifestSource("serve", "a" * 64, partition=1)
    with archive_writer(tmp_path / "out") as archive:
        for origin, time in ((ours, 5), (theirs, 9), (ours, 7), (theirs, 8)):
            archive.mark(origin, time)
    assert read_manifest(tmp_path / "out").watermarks == {ours: 7, theirs: 8}
    manifest = tmp_path / "out" / MANIFEST
    assert json.loads(manifest.read_bytes().splitlines()[0]) == {
        "watermark": "1970-01-01T00:00:00.000000005Z",
        "source": {"name": "serve", "sha256": "a" * 64, "timezone": "UTC", "partition": 0},
    }
    manifest.write_bytes(manifest.read_bytes()[:-10])
    assert read_manifest(tmp_path / "out").watermarks == {ours: 7, theirs: 9}
    with archive_writer(tmp_path / "out") as archive:
        archive.mark(ours, 10)
    assert read_manifest(tmp_path / "out").watermarks == {ours: 10, theirs: 9}
    manifest.write_text('{"watermark": "soon", "source": {"name": "serve", "sha256": "a"}}\n')
    with pytest.raises(SourceError, match="TRL403"):
        read_manifest(tmp_path / "out")


def test_settings_that_cannot_be_used_are_errors(tmp_path: Path) -> None:
    """A zone that there is not is TRL405; an archive inside its own source is refused."""
    source = put(tmp_path / "log.json", [talk(1)])
    for zone in ("Mars/Base", "../etc/passwd", ""):
        with pytest.raises(SourceError, match="TRL405"):
            import_source(source, tmp_path / "out", zone)
    with pytest.raises(SourceError, match="TRL401"):
        import_source(tmp_path, tmp_path / "out")


def run(*words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `tracline import`."""
    result = CliRunner().invoke(tracline, ["import", *words])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_reports_what_it_did(tmp_path: Path) -> None:
    """Counts on standard output, as a table or JSON; progress on standard error unless `--quiet`."""
    source = str(put(tmp_path / "log.json", [talk(1), talk(2), talk(1)]))
    code, table, progress = run(source, "--out", str(tmp_path / "a"))
    assert (code, progress) == (0, "importing log.json\n")
    assert "         2 sessions\n         4 user\n         4 assistant\n         8 tool_call\n" in table
    assert "1 duplicate conversations" in table
    code, text, progress = run(source, "--out", str(tmp_path / "b"), "--format", "json", "--quiet")
    report = json.loads(text)
    assert (code, progress) == (0, "")
    assert (report["sessions"], report["duplicates"], report["instructions"]) == (2, 1, 3)
    assert report["events"] == {"user": 4, "assistant": 4, "tool_call": 8, "tool_result": 8}


def test_rejected_input_is_reported_with_file_and_place_and_fails(tmp_path: Path) -> None:
    """More than `--allow-rejected` exits 2; what could be read is imported; no message text is printed."""
    broken = [*talk(1), {"role": "wizard", "content": "secret"}, {"role": "user", "content": 7}]
    source = str(put(tmp_path / "log.json", [broken, talk(2)]))
    code, table, error = run(source, "--out", str(tmp_path / "a"))
    assert code == 2
    assert "2 rejected" in table
    assert "log.json: session 1, message 12: chat-role: " in error
    assert "log.json: session 1, message 13: chat-content: " in error
    assert "2 rejected, more than --allow-rejected 0" in error
    assert "secret" not in table + error
    assert rows(tmp_path / "a")["session_id"].n_unique() == 2
    assert run(source, "--out", str(tmp_path / "a"))[0] == 2
    assert run(source, "--out", str(tmp_path / "b"), "--allow-rejected", "2")[0] == 0


def test_an_import_of_nothing_is_an_error(tmp_path: Path) -> None:
    """The code, the place and what to do, on standard error; exit 2."""
    code, out, error = run(str(tmp_path / "nowhere"), "--out", str(tmp_path / "a"))
    assert (code, out) == (2, "")
    assert "TRL401 no such file or folder" in error
