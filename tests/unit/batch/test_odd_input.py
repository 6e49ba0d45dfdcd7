"""Input that nobody means to give: names that are no text, times at the ends of 64 bits, maps of nulls."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.archive.error import SourceError
from tracline.archive.manifest import append_lines
from tracline.batch.sources.discover import Population, discover
from tracline.cli import tracline
from tracline.schemas.time import EVENT_TIME_MIN

PACK = """
pack: small
propositions: {call: 'kind == "tool_call"', asked: 'kind == "user"'}
rules: [{id: asked, formula: call -> once asked}, {id: silent, formula: always not asked}]
"""
ENDS = [-(2**63), -(2**63) + 1, EVENT_TIME_MIN - 1, EVENT_TIME_MIN, -1, 0, 1, 2**63 - 2, 2**63 - 1]
TALK = json.dumps([{"role": "user", "content": "hi"}])


def run(*words: str | Path) -> Result:
    """Run a command, which must end as commands end: with its own exit code, and no exception."""
    result = CliRunner().invoke(tracline, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def audited(source: Path, folder: Path) -> Result:
    """Audit a source by the small pack."""
    pack = folder / "small.yaml"
    pack.write_text(PACK, encoding="utf-8")
    return run("audit", source, "--rules", pack, "--out", folder / "bundle", "--satisfied")


def put_rows(path: Path, times: list[int], unit: Any, **columns: Any) -> None:
    """Write event Parquet with these times, numbers of that unit."""
    kinds = ["user", "tool_call"] * len(times)
    rows = {"session_id": ["s"] * len(times), "kind": kinds[: len(times)]}
    time = pl.Series("time", times, pl.Int64).cast(pl.Datetime(unit, "UTC"))
    pl.DataFrame(rows | columns).with_columns(time).write_parquet(path)


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
def test_times_at_the_ends_of_64_bits_are_judged_or_rejected(tmp_path: Path, unit: str) -> None:
    """A row is judged where its time lies between 1678 and 2262; else it is rejected and the rest judged."""
    scale = {"ns": 1, "us": 1_000, "ms": 1_000_000}[unit]
    sound = [time for time in ENDS if EVENT_TIME_MIN <= time * scale < 2**63]
    assert 3 <= len(sound) < len(ENDS)
    put_rows(tmp_path / "in.parquet", ENDS, unit)
    result = audited(tmp_path / "in.parquet", tmp_path)
    assert result.exit_code == 2
    assert f"rejected: {len(ENDS) - len(sound)} row-time" in result.stderr or (
        result.stderr.count(": row-time: ") == len(ENDS) - len(sound)
    )
    summary = json.loads((tmp_path / "bundle" / "summary.json").read_text())
    assert summary["population"]["events"] == len(sound)


@pytest.mark.parametrize("unit", ["ns", "us"])
@pytest.mark.parametrize("began", [-(2**63) + 1, EVENT_TIME_MIN - 1])
def test_an_occurrence_that_is_no_time_rejects_its_rows(tmp_path: Path, unit: Any, began: int) -> None:
    """Judged events name when their occurrence began: one that no text can hold is rejected with its rows."""
    occurrence = pl.Series([began, began], dtype=pl.Int64).cast(pl.Datetime(unit, "UTC"))
    columns = {"seq": [1, 2], "occurrence": occurrence, "event_id": ["a", "b"]}
    put_rows(tmp_path / "in.parquet", [5, 6], unit, **columns)
    result = audited(tmp_path / "in.parquet", tmp_path)
    assert (result.exit_code, result.stderr.count(": row-time: ")) == (2, 2)


@pytest.mark.parametrize("time", [*ENDS, 2**63, "1677-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
def test_a_message_at_any_time_is_judged_or_rejected(tmp_path: Path, time: int | str) -> None:
    """Chat logs are read to verdicts, or the message is rejected with its reason; import and audit agree."""
    text = json.dumps([{"role": "user", "content": "hi", "timestamp": time}])
    (tmp_path / "in.json").write_text(text, encoding="utf-8")
    result = audited(tmp_path / "in.json", tmp_path)
    imported = run("import", tmp_path / "in.json", "--out", tmp_path / "archive")
    is_rejected = ": chat-time: " in result.stderr or ": json: " in result.stderr
    assert imported.exit_code == result.exit_code == (2 if is_rejected else 0)


@pytest.mark.parametrize(
    "attributes", [[[None]], [[{"key": None, "value": "1"}]], [[{"key": "x", "value": None}]], [None], [[]]]
)
def test_attributes_with_nulls_are_read(tmp_path: Path, attributes: list[Any]) -> None:
    """A list of pairs stands for a map, which holds no null and no key that is null: these are left out."""
    kind = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
    put_rows(tmp_path / "in.parquet", [5], "ns", attributes=pl.Series(attributes, dtype=kind))
    assert audited(tmp_path / "in.parquet", tmp_path).exit_code == 0


def test_a_name_that_is_no_text_is_rejected_and_nothing_is_left(tmp_path: Path) -> None:
    """The file is named byte by byte; its neighbours are imported, and the archive is whole."""
    source = tmp_path / "in"
    source.mkdir()
    for name in (b"bad\xff.json", b"line\nbreak\x1b[31m.json", b"good.json"):
        (source / os.fsdecode(name)).write_text(TALK.replace("hi", str(name)[2:6]), encoding="utf-8")
    (source / os.fsdecode(b"r\xffadme")).write_text("no telemetry", encoding="utf-8")
    refused = run("import", source, "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert "bad\\xff.json: whole file: source-name: has a path" in refused.stderr
    assert "\x1b" not in refused.output + refused.stderr
    assert audited(source, tmp_path).exit_code == 2
    again = run("import", source, "--out", tmp_path / "out", "--allow-rejected", "1", "--format", "json")
    report = json.loads(again.stdout)
    assert (report["files_known"], report["files_skipped"]) == (2, ["r\\xffadme"])
    population = Population()
    assert len(discover(tmp_path / "out", population)) == 1
    assert (population.rejected, population.skipped) == ({}, [])


def test_an_argument_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """TRL604 for any command, before it does anything."""
    result = run("import", tmp_path, "--out", os.fsdecode(b"out\xff"))
    assert (result.exit_code, result.stderr.split(" is ")[0]) == (2, "out\\xff: TRL604 the argument")


def test_an_import_that_fails_leaves_no_file(tmp_path: Path) -> None:
    """Files of a failed import are removed: no manifest lists them."""
    log = [{"id": f"s{day}", "messages": [message(day)]} for day in (1, 2, 3)]
    (tmp_path / "in.json").write_text(json.dumps(log), encoding="utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "day=2026-01-03").write_text("in the way", encoding="utf-8")
    result = run("import", tmp_path / "in.json", "--out", tmp_path / "out")
    assert (result.exit_code, "TRL409" in result.stderr) == (2, True)
    assert not list((tmp_path / "out").rglob("*.parquet"))
    assert not list((tmp_path / "out").rglob(".writing-*"))
    (tmp_path / "out" / "day=2026-01-03").unlink()
    assert run("import", tmp_path / "in.json", "--out", tmp_path / "out").exit_code == 0


def message(day: int) -> dict[str, str]:
    """Return a message of that day."""
    return {"role": "user", "content": "hi", "timestamp": f"2026-01-0{day}T10:00:00Z"}


def test_a_manifest_that_the_disk_does_not_take_is_named() -> None:
    """TRL409 with the manifest's path, where the device is full."""
    with (
        Path("/dev/full").open("ab", buffering=0) as full,
        pytest.raises(SourceError, match="TRL409") as caught,
    ):
        append_lines(full, [{"finished": {}}], sync=True)
    assert caught.value.where == "/dev/full"


ODD: list[Any] = [
    None,
    True,
    -1,
    2**53 + 1,
    2**64,
    10**400,
    1.5,
    "",
    "x" * 999,
    "\x00",
    [],
    {},
    [[]],
    {"": 1},
]


@pytest.mark.slow
def test_mutated_logs_and_dumps_end_in_verdicts_or_rejects(tmp_path: Path) -> None:
    """Any value anywhere in a chat log or a dump is judged or rejected; no command ends in an exception."""
    chance = random.Random(12)
    call = {"id": "c", "function": {"name": "look", "arguments": '{"n":7}'}}
    log = [message(1), {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": ["x"]}]
    attributes = [{"key": "gen_ai.conversation.id", "value": {"stringValue": "s"}}]
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "chat", "startTimeUnixNano": "1"}
    dump = {"resourceSpans": [{"scopeSpans": [{"spans": [span | {"attributes": attributes}]}]}]}
    for number in range(60):
        value = json.loads(json.dumps((log, dump)[number % 2]))
        spoil(value, chance)
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        assert audited(path, tmp_path).exit_code in (0, 2)
        run("import", path, "--out", tmp_path / f"archive-{number}")


def spoil(value: Any, chance: random.Random) -> None:
    """Put an odd value somewhere into a JSON value."""
    while True:
        key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        inner = value[key]
        if not isinstance(inner, (dict, list)) or not inner or chance.random() < 0.2:
            value[key] = chance.choice(ODD)
            return
        value = inner


def test_what_is_not_utf_8_in_a_source_of_one_file_is_an_error_of_that_file(tmp_path: Path) -> None:
    """A source that is such a file is rejected by its name, too."""
    path = tmp_path / os.fsdecode(b"\xff.json")
    path.write_text(TALK, encoding="utf-8")
    population = Population()
    assert discover(path, population) == ()
    assert [reject.file for reject in population.rejects] == ["\\xff.json"]
    with pytest.raises(SourceError, match="TRL401"):
        discover(tmp_path / "nowhere", population)
