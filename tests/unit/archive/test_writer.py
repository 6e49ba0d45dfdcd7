"""Event Parquet that others wrote, and candidates: columns, rejected rows, order, occurrences, ids."""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracline.archive.error import SourceError
from tracline.archive.manifest import ManifestSource
from tracline.archive.writer import archive_writer
from tracline.batch.prepare import spill
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.prepare.prepare import prepare
from tracline.batch.sources.discover import Population, SourceFile, discover
from tracline.batch.sources.event_files import reject_rows, scan
from tracline.schemas.event import Event, Kind
from tracline.schemas.frames.events import EVENT_SCHEMA, event_frame
from tracline.schemas.sessions.order import session_order
from tracline.schemas.sessions.order_rows import judged_order, numbered_order
from tracline.schemas.time import NS

DAY = datetime(2026, 1, 1)
UNORDERED = ("seq", "occurrence", "event_id")


def at(second: float) -> datetime:
    """A time on the first day of 2026, without a zone."""
    return DAY + timedelta(seconds=second)


def candidates(*rows: tuple[str, float, str, str | None], **more: Any) -> pl.DataFrame:
    """Rows of session, second, kind and text, as a full frame without seq, occurrence or id."""
    events = [
        Event(session, 0, 1_767_225_600 * NS + round(second * NS), 0, Kind(kind), text=text)
        for session, second, kind, text in rows
    ]
    empty = [pl.lit(None, EVENT_SCHEMA[name]).alias(name) for name in UNORDERED]
    series = [pl.Series(name, of, EVENT_SCHEMA.get(name)) for name, of in more.items()]
    return event_frame(events).with_columns(*empty).with_columns(*series)


def order(frame: pl.DataFrame, idle_s: float = 3600) -> list[tuple[str, int, str | None]]:
    """Session, seq and text of the judged events."""
    return judged_order(frame, idle_s).events.select("session_id", "seq", "text").rows()


def written(tmp_path: Path, frame: pl.DataFrame, name: str = "events.parquet") -> SourceFile:
    """The frame as the only file of a source."""
    frame.write_parquet(tmp_path / name)
    (part,) = discover(tmp_path / name, Population())
    return part


def test_the_smallest_event_parquet_is_enough(tmp_path: Path) -> None:
    """Session, time and kind: other columns are null or their defaults; times without a zone are UTC."""
    frame = pl.DataFrame({"session_id": ["s"], "time": [at(1)], "kind": ["user"], "extra": [1]})
    (row,) = scan(written(tmp_path, frame)).collect().rows(named=True)
    assert list(row) == list(EVENT_SCHEMA)
    assert row["time"].isoformat() == "2026-01-01T00:00:01+00:00"
    expected = {"content": "captured", "late": False, "history": False, "nested": False}
    assert {name: row[name] for name in expected} == expected
    assert row["text"] is row["seq"] is row["attributes"] is None


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_spellings_of_types_are_read(tmp_path: Path, unit: Any) -> None:
    """Any unit and zone of time, words as categories, any integer, attributes as a list of pairs."""
    cest = timezone(timedelta(hours=2))
    frame = pl.DataFrame(
        {
            "session_id": pl.Series(["s"], dtype=pl.Categorical),
            "time": pl.Series([at(7200).replace(tzinfo=cest)])
            .dt.convert_time_zone("Asia/Tokyo")
            .dt.cast_time_unit(unit),
            "kind": pl.Series(["tool_call"], dtype=pl.Categorical),
            "seq": pl.Series([1], dtype=pl.Int64),
            "text": pl.Series([None]),
            "attributes": [[{"key": "a", "value": "b"}]],
        }
    )
    (row,) = scan(written(tmp_path, frame)).collect().rows(named=True)
    assert (row["time"].timestamp(), row["seq"], row["attributes"]) == (1_767_225_600, 1, {"a": "b"})


@pytest.mark.parametrize(
    ("column", "values", "error"),
    [
        ("session_id", None, "has no column session_id"),
        ("time", None, "has no column time"),
        ("kind", None, "has no column kind"),
        ("session_id", [1], "has the column session_id as Int64, not as String"),
        ("time", ["2026"], "has the column time as String"),
        ("args", [{"a": 1}], "has the column args as Struct"),
        ("nested", ["no"], "has the column nested as String, not as Boolean"),
        ("seq", [1.5], "has the column seq as Float64"),
    ],
)
def test_columns_that_cannot_be_read_are_named(tmp_path: Path, column: str, values: Any, error: str) -> None:
    """A required column that is missing, or a column of another type, is TRL402 with file and column."""
    frame = pl.DataFrame({"session_id": ["s"], "time": [at(1)], "kind": ["user"]})
    frame = frame.drop(column) if values is None else frame.with_columns(pl.Series(column, values))
    with pytest.raises(SourceError, match="TRL402") as caught:
        scan(written(tmp_path, frame))
    assert caught.value.where == "events.parquet"
    assert error in caught.value.what


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    """Parquet that is cut off is TRL401 with the file's name."""
    path = tmp_path / "events.parquet"
    candidates(("s", 1, "user", "x")).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    (part,) = discover(path, Population())
    with pytest.raises(SourceError, match="TRL401"):
        scan(part)


def test_rows_that_cannot_be_judged_are_rejected_with_file_and_place(tmp_path: Path) -> None:
    """No session, time or known kind, unknown content, a seq that is no place; the rest is read."""
    frame = pl.DataFrame(
        {
            "session_id": ["s", None, "s", "s", "s", "s", "s", "s", "s"],
            "time": [at(1), at(1), None, at(1), at(1), at(1), datetime(9999, 1, 1), at(1), at(1)],
            "kind": ["user", "user", "user", "wizard", "user", "user", "user", "user", "user"],
            "content": ["captured", None, None, None, "torn", None, None, None, None],
            "seq": [1, 1, 1, 1, 1, 0, 1, -1, 2**32],
        }
    )
    part, population = written(tmp_path, frame), Population()
    reject_rows(part, population)
    assert population.rows == 9
    assert [(reject.file, reject.position, reject.code) for reject in population.rejects] == [
        ("events.parquet", "row 2", "row-session"),
        ("events.parquet", "row 3", "row-time"),
        ("events.parquet", "row 4", "row-kind"),
        ("events.parquet", "row 5", "row-content"),
        ("events.parquet", "row 6", "row-seq"),
        ("events.parquet", "row 7", "row-time"),
        ("events.parquet", "row 8", "row-seq"),
        ("events.parquet", "row 9", "row-seq"),
    ]
    assert (population.rejected["row-seq"], population.rejected.total()) == (3, 8)
    assert scan(part).collect().height == 1


def test_candidates_sort_by_time_place_kind_and_place_in_the_message() -> None:
    """In that order; what has no place in the conversation comes after what has one."""
    frame = candidates(
        ("s", 1, "assistant", "no place"),
        ("s", 1, "user", "second"),
        ("s", 1, "assistant", "first"),
        ("s", 1, "user", "no place, user"),
        ("s", 0, "assistant", "earliest"),
        ("s", 1, "tool_call", None),
        ("s", 1, "tool_call", "call 1"),
        conversation_place=[None, 2, 1, None, 9, 3, 3],
        message_place=[None, None, None, None, None, 1, 0],
    )
    texts = [text for _, _, text in order(frame)]
    assert texts == ["earliest", "first", "second", "call 1", None, "no place, user", "no place"]


def test_an_occurrence_ends_at_its_end_or_when_the_session_is_idle() -> None:
    """More than `idle_s` of silence or an `end` row begins a new occurrence, whose seq begins at 0."""
    frame = candidates(
        ("s", 0, "user", "a"),
        ("s", 10, "user", "b"),
        ("s", 20.5, "user", "c"),
        ("s", 21, "end", None),
        ("s", 21.5, "user", "d"),
        ("t", 5, "user", "e"),
    )
    judged = judged_order(frame, 10)
    seconds = (pl.col("occurrence").dt.epoch("ms") - 1_767_225_600_000) / 1000
    assert judged.events.select("session_id", seconds, "seq", "text").rows() == [
        ("s", 0.0, 1, "a"),
        ("s", 0.0, 2, "b"),
        ("s", 20.5, 1, "c"),
        ("s", 20.5, 2, None),
        ("s", 21.5, 1, "d"),
        ("t", 5.0, 1, "e"),
    ]


def test_an_end_of_what_has_closed_is_none() -> None:
    """A second `end`, and one that comes after the session was idle, close nothing, and are counted."""
    frame = candidates(
        ("s", 0, "user", "a"), ("s", 1, "end", None), ("s", 2, "end", None), ("t", 1, "end", None)
    )
    judged = judged_order(frame, 10)
    assert (judged.events.height, judged.stray_ends) == (2, 2)


def test_a_repeat_by_event_id_is_dropped_and_the_first_stays() -> None:
    """In order of time; rows without ids cannot be recognised as repeats and get ids of their own."""
    frame = candidates(("s", 2, "user", "late"), ("s", 1, "user", "early"), event_id=["x", "x"])
    judged = judged_order(frame, 10)
    assert (judged.events["text"].to_list(), judged.repeats) == (["early"], 1)
    twice = judged_order(candidates(("s", 1, "user", "a"), ("s", 1, "user", "a")), 10)
    assert (twice.events.height, twice.repeats, twice.events["event_id"].n_unique()) == (2, 0, 2)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["s", "t"]),
        st.integers(0, 6),
        st.sampled_from([kind.value for kind in Kind]),
        st.sampled_from(["a", "b", None]),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(ROWS, st.randoms(), st.integers(1, 3))
def test_the_order_of_rows_in_the_files_does_not_matter(rows: list[Any], random: Any, idle_s: int) -> None:
    """Any permutation of the candidates gives the same events; judging those again changes nothing."""
    attributes = [{"nth": str(number)} for number in range(len(rows))]
    frame = candidates(*rows, attributes=attributes)
    places = list(range(len(rows)))
    random.shuffle(places)
    judged = judged_order(frame, idle_s).events
    assert judged_order(frame[places], idle_s).events.equals(judged)
    assert numbered_order(judged.sample(fraction=1.0, shuffle=True, seed=1)).events.equals(judged)
    again = judged_order(judged, idle_s)
    assert again.repeats == again.stray_ends == 0
    assert again.events["occurrence"].equals(judged["occurrence"])


@pytest.mark.slow
@given(ROWS, st.integers(1, 3))
def test_occurrences_follow_their_definition(rows: list[Any], idle_s: int) -> None:
    """A plain loop over each session's sorted rows cuts at ends and silences at the same places."""
    judged = judged_order(candidates(*rows), idle_s).events
    expected: list[tuple[str, int, int]] = []
    kinds = [kind.value for kind in Kind]
    for session in ("s", "t"):
        start = last = seq = None
        moments = sorted((second, kinds.index(kind)) for name, second, kind, _ in rows if name == session)
        for second, kind in moments:
            if start is None or last is None or seq is None or second - last > idle_s:
                start, seq = second, 0
            if kinds[kind] == "end":
                if seq:
                    expected.append((session, start, seq + 1))
                start = None
                continue
            last, seq = second, seq + 1
            expected.append((session, start, seq))
    seconds = pl.col("occurrence").dt.epoch("s") - 1_767_225_600
    assert judged.select("session_id", seconds, "seq").rows() == expected


def test_rows_with_seq_keep_their_order_and_get_what_they_lack() -> None:
    """The times do not matter; without `occurrence` a session is one, and began with its first event."""
    frame = candidates(
        ("s", 5, "user", "a"), ("s", 3, "assistant", "b"), ("s", 9, "end", None), seq=[1, 2, 3]
    )
    judged = numbered_order(frame.reverse()).events
    assert judged["text"].to_list() == ["a", "b", None]
    assert judged["occurrence"].unique().to_list() == judged["time"].to_list()[:1]
    assert judged["event_id"].null_count() == 0


def rows_of(frame: pl.DataFrame) -> list[tuple[str, float, int, str, str | None]]:
    """Session, second of the occurrence, seq, kind and text of the events in judged order."""
    second = (pl.col("occurrence").dt.epoch("ms") - 1_767_225_600_000) / 1000
    return session_order(frame, 10).events.select("session_id", second, "seq", "kind", "text").rows()


def test_what_comes_after_an_end_is_the_next_occurrence() -> None:
    """Rows with an order but no occurrence are cut there as well, and count from 0 again."""
    frame = candidates(
        ("s", 1, "user", "a"),
        ("s", 2, "end", None),
        ("s", 3, "user", "b"),
        ("s", 4, "user", "c"),
        ("s", 4, "end", None),
        seq=[1, 2, 3, 4, 5],
    )
    assert rows_of(frame.reverse()) == [
        ("s", 1.0, 1, "user", "a"),
        ("s", 1.0, 2, "end", None),
        ("s", 3.0, 1, "user", "b"),
        ("s", 3.0, 2, "user", "c"),
        ("s", 3.0, 3, "end", None),
    ]


def test_numbered_rows_that_come_twice_are_repeats() -> None:
    """A file read twice changes nothing; rows that differ at one place both stay."""
    rows = [("s", 1, "user", "a"), ("s", 2, "user", "a"), ("s", 2, "end", None)]
    once = candidates(*rows, seq=[1, 2, 3])
    twice = session_order(pl.concat([once, once]), 10)
    assert twice.repeats == 3
    assert twice.events.equals(session_order(once, 10).events)
    different = candidates(("s", 1, "user", "b"), seq=[1])
    assert session_order(pl.concat([once, different]), 10).events["seq"].to_list() == [1, 1, 2, 3]


def test_an_end_without_seq_ends_what_is_numbered() -> None:
    """The occurrence that it names, else the last one begun before it; alone it ends nothing."""
    numbered = candidates(("s", 1, "user", "a"), ("s", 2, "user", "b"), ("t", 5, "user", "c"), seq=[1, 2, 1])
    end = candidates(("s", 2, "end", None), ("t", 5, "end", None), ("u", 5, "end", None))
    expected = [
        ("s", 1.0, 1, "user", "a"),
        ("s", 1.0, 2, "user", "b"),
        ("s", 1.0, 3, "end", None),
        ("t", 5.0, 1, "user", "c"),
        ("t", 5.0, 2, "end", None),
    ]
    assert rows_of(pl.concat([numbered, end])) == expected
    assert session_order(pl.concat([numbered, end]), 10).stray_ends == 1
    starts = pl.Series([at(1), at(20)]).dt.replace_time_zone("UTC").cast(EVENT_SCHEMA["occurrence"])
    named = candidates(("s", 1, "user", "a"), ("s", 20, "user", "b"), seq=[1, 1], occurrence=starts)
    for second, closed in ((3.0, 1.0), (30.0, 20.0)):
        found = rows_of(pl.concat([named, candidates(("s", second, "end", None))]))
        assert [row for row in found if row[3] == "end"] == [("s", closed, 2, "end", None)]
    late = candidates(("s", 30, "end", None), occurrence=starts[:1])
    assert ("s", 1.0, 2, "end", None) in rows_of(pl.concat([named, late]))
    assert rows_of(late) == [("s", 1.0, 1, "end", None)]


def test_rows_without_seq_beside_numbered_ones_are_candidates() -> None:
    """They are put in order by themselves, as an occurrence of their own."""
    frame = candidates(
        ("s", 1, "user", "a"),
        ("s", 8, "assistant", "d"),
        ("s", 7, "user", "c"),
        ("s", 9, "end", None),
        seq=[1, None, None, None],
    )
    assert rows_of(frame) == [
        ("s", 1.0, 1, "user", "a"),
        ("s", 7.0, 1, "user", "c"),
        ("s", 7.0, 2, "assistant", "d"),
        ("s", 7.0, 3, "end", None),
    ]


def test_times_centuries_apart_are_apart() -> None:
    """64 bits of nanoseconds hold 584 years, and a difference of them has to be held, too."""
    first, last = datetime(1678, 1, 1), datetime(2261, 1, 1)
    frame = candidates(("s", 1, "user", "a"), ("s", 2, "user", "b")).with_columns(
        pl.Series("time", [first, last]).dt.replace_time_zone("UTC").cast(EVENT_SCHEMA["time"])
    )
    assert judged_order(frame, 3600).events["seq"].to_list() == [1, 1]
    assert judged_order(frame, 1e12).events["seq"].to_list() == [1, 2]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(rows=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 90)), min_size=1, unique=True))
def test_any_source_is_made_ready_in_buckets(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[int, int]]
) -> None:
    """Candidates over several files give the events that all rows at once give, whatever the buckets."""
    monkeypatch.setattr(spill, "BUCKET_ROWS", 7)
    monkeypatch.setattr(spill, "PASS_ROWS", 5)
    source, scratch = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("scratch")
    frame = candidates(*((f"s{session}", second, "user", str(second)) for session, second in rows))
    for number, rest in enumerate((frame[::2], frame[1::2])):
        # One file has rows without a place in a conversation, the other does not state it.
        (rest.with_columns(conversation_place=None) if number else rest).write_parquet(
            source / f"{number}.parquet"
        )
    parts = prepare(source, scratch, Population(), AuditOptions(idle_s=30))
    found = pl.concat([scan(part) for part in parts]).collect().sort("session_id", "occurrence", "seq")
    assert found.equals(judged_order(frame, 30).events)


def test_what_is_ready_stays_where_it_is(tmp_path: Path) -> None:
    """Archive files are judged in place; chat logs and files without ids are written to scratch."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    judged = judged_order(candidates(("s", 1, "user", "a"), ("s", 2, "end", None)), 10).events
    with archive_writer(tmp_path / "archive") as archive:
        (entry,) = archive.write(judged, ManifestSource("x", "0" * 64), (0, 0))
    (ready,) = prepare(tmp_path / "archive", scratch, Population())
    assert ready.path == tmp_path / "archive" / entry.file
    (made,) = prepare(written(tmp_path, judged.drop("event_id")).path, scratch, Population())
    assert made.path.parent == scratch
    assert scan(made).collect().equals(judged)
    log = tmp_path / "log.json"
    log.write_text('[{"role": "user", "content": "hi"}]', encoding="utf-8")
    (path,) = prepare(log, scratch, Population())
    assert scan(path).collect()["kind"].to_list() == ["user", "end"]
