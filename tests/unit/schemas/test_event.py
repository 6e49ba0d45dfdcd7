"""Events: their ids, times, and the frame's columns."""

import hashlib
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import orjson
import polars as pl
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from tracline.rules.model.fields import CONTENTS, KINDS
from tracline.schemas.event import Content, Event, Kind, canonical_text, event_content, event_id
from tracline.schemas.frames.events import EVENT_SCHEMA, event_frame
from tracline.schemas.time import NS, parse_time, rfc3339

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def test_predicates_know_the_words_of_events() -> None:
    """`kind` and `content` have the values that an event can have; `end` is no event."""
    assert set(KINDS) == {kind.value for kind in Kind} - {Kind.END.value}
    assert set(CONTENTS) == {content.value for content in Content}


@pytest.mark.slow
@given(TEXT, st.integers(0, 4 * 10**18), st.lists(TEXT | st.none(), max_size=3), st.integers(0, 10**6))
def test_an_id_is_the_digest_of_the_canonical_array(
    session: str, occurrence: int, content: list[str | None], ordinal: int
) -> None:
    """`event_id` is the first 32 hex digits of the SHA-256 of the RFC 8785 form of its five parts."""
    array = rfc8785.dumps([session, rfc3339(occurrence), "user", content, ordinal])
    assert event_id(session, occurrence, "user", content, ordinal) == hashlib.sha256(array).hexdigest()[:32]


def test_a_known_event_has_a_known_id() -> None:
    """The id of one event, computed by hand from its array's text, never changes."""
    array = '["s","2026-02-17T22:55:18.802031000Z","tool_call",["c1","refund","{\\"a\\":1,\\"b\\":2}"],0]'
    content = event_content("tool_call", tool="refund", call_id="c1", args='{"b": 2, "a": 1.0}')
    made = event_id("s", 1771368918802031000, "tool_call", content, 0)
    assert made == hashlib.sha256(array.encode()).hexdigest()[:32]


def test_spaces_and_order_in_arguments_do_not_make_another_call() -> None:
    """Arguments that are the same JSON give the same content; other arguments do not."""
    a = event_content("tool_call", tool="t", args='{"x":1,"y":[true,null]}')
    b = event_content("tool_call", tool="t", args=' { "y" : [ true, null ], "x" : 1.0 } ')
    assert a == b != event_content("tool_call", tool="t", args='{"x":2,"y":[true,null]}')


@pytest.mark.parametrize("text", ["", "{", "not json", "[1,]", "{'a': 1}", "01", "[" * 5000])
def test_text_that_is_not_json_stays_as_it_is(text: str) -> None:
    """Broken JSON is no JSON: its canonical text is the text itself."""
    assert canonical_text(text) == text


def test_a_kinds_content_is_what_its_id_hashes() -> None:
    """A result's error and a message's tool are no part of its content; `unknown` and `end` have none."""
    every = {"text": "T", "tool": "t", "call_id": "c", "args": "{}", "result": "R"}
    assert event_content("user", **every) == event_content("assistant", **every) == ["T"]
    assert event_content("tool_call", **every) == ["c", "t", "{}"]
    assert event_content("tool_result", **every) == ["c", "t", "R"]
    assert event_content("unknown", **every) == event_content("end", **every) == []


@pytest.mark.slow
@given(st.integers(-(2**63), 2**63 - 1))
def test_times_are_read_as_they_are_written(ns: int) -> None:
    """`parse_time` of `rfc3339` is the identity on all times of 64 bits; nine digits are written."""
    text = rfc3339(ns)
    assert len(text) == 30
    assert text[19] == "."
    assert parse_time(text) == ns


@pytest.mark.slow
@given(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)))
def test_times_agree_with_pythons_clock(moment: datetime) -> None:
    """Microsecond times read as the standard library reads them."""
    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    ns = ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000
    assert parse_time(moment.isoformat()) == parse_time(f"{moment.isoformat(' ')}Z") == ns


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        ("2026-02-17T22:55:18+02:00", 1771361718 * NS),
        ("2026-02-17T22:55:18.1234567899", 1771368918 * NS + 123456789),
        (1771368918, 1771368918 * NS),
        (1771368918.25, 1771368918 * NS + NS // 4),
        (1771368918250, 1771368918 * NS + NS // 4),
        (1771368918250000, 1771368918 * NS + NS // 4),
        (1771368918250000001, 1771368918250000001),
    ],
)
def test_the_spellings_of_a_time(value: object, ns: int) -> None:
    """Offsets count, digits after the ninth are cut, numbers are seconds to nanoseconds by their size."""
    assert parse_time(value) == ns


@pytest.mark.parametrize(
    "value",
    [
        *("", "yesterday", "2026-02-17", "2026-13-01T00:00:00", "9999-01-01T00:00:00Z", "x" * 100),
        *(True, None, [], float("nan"), float("inf"), 10**30, -(10**30)),
    ],
)
def test_what_is_no_time_is_none(value: object) -> None:
    """Other values, dates without a time of day, times beyond 64 bits: None, never an error."""
    assert parse_time(value) is None


def test_a_time_without_an_offset_is_local_to_the_zone() -> None:
    """Summer time counts; of a time that happens twice the first is meant."""
    berlin = ZoneInfo("Europe/Berlin")
    assert parse_time("2026-07-01T12:00:00", berlin) == parse_time("2026-07-01T10:00:00Z")
    assert parse_time("2026-10-25T02:30:00", berlin) == parse_time("2026-10-25T00:30:00Z")
    assert parse_time("2026-07-01T12:00:00Z", berlin) == parse_time("2026-07-01T12:00:00Z")


def test_the_frame_holds_events_and_keeps_them(tmp_path: object) -> None:
    """A frame of events has the schema's columns and survives Parquet."""
    event = Event("s", 5, 7, 1, Kind.USER, text="hi", attributes={"a": "b"})
    frame = event_frame([event, Event("s", 5, 8, 2, Kind.END)])
    assert frame.schema == pl.Schema(EVENT_SCHEMA)
    file = f"{tmp_path}/events.parquet"
    frame.write_parquet(file)
    assert pl.read_parquet(file).equals(frame)
    row = frame.row(0, named=True)
    assert (row["kind"], row["text"], row["attributes"]) == ("user", "hi", {"a": "b"})
    assert frame["time"].to_physical().to_list() == [7, 8]


@pytest.mark.slow
@given(st.lists(TEXT | st.none() | st.integers(-(2**53) + 1, 2**53 - 1)))
def test_orjson_writes_flat_arrays_as_rfc_8785_does(values: list[str | int | None]) -> None:
    """The bytes that ids hash are canonical: of strings, nulls and safe integers both write one form."""
    assert orjson.dumps(values) == rfc8785.dumps(values)
