"""The audit's reading of what real agent frameworks sent, recorded by `make test-frameworks RECORD=1`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tracline.schemas.otlp.decode import decode_protobuf

from .compare import differences, read
from .framework import frameworks
from .not_yet import NOT_YET
from .page import PAGE, page
from .recordings import FOLDER, names, requests_of, truth_of_recording
from .run import truth_json

BYTES_MAX = 60_000
"""The largest size of a recording."""


@pytest.mark.parametrize("name", names())
def test_a_recording_is_read_as_it_happened(name: str, tmp_path: Path) -> None:
    """The events and verdicts of an audit are those of the script, but for the recordings of `NOT_YET`.

    One that stands there and is read right fails: it has to be taken off the list.
    """
    events, verdicts = read(FOLDER / name / "*" / "*.zst", tmp_path / "read")
    found = differences(truth_of_recording(name), events, verdicts)
    if name in NOT_YET:
        assert found, f"{name} is read right: take it off NOT_YET"
    else:
        assert not found, "\n".join(found)


def test_the_list_of_what_is_not_read_right_names_recordings() -> None:
    """Each name in `NOT_YET` is that of a recording, with a reason."""
    assert NOT_YET.keys() <= set(names())
    assert all(NOT_YET.values())


def test_recordings_are_small_and_hold_nothing_of_the_machine() -> None:
    """Each is below 60 kB, and holds no path, no host and no command line."""
    for name in names():
        files = [file for file in (FOLDER / name).rglob("*") if file.is_file()]
        assert sum(file.stat().st_size for file in files if file.suffix == ".zst") < BYTES_MAX, name
        for file in files:
            data = [file.read_bytes()] if file.suffix == ".json" else requests_of(file)
            for request in data:
                for word in (b"/root", b"/work/", b"/home/", b".frameworks", b"process.", b"host.name"):
                    assert word not in request, f"{file.relative_to(FOLDER)} holds {word!r}"


def test_turns_of_several_sessions_were_played_at_the_same_time() -> None:
    """In every recording traces overlap, so that time alone cannot separate conversations."""
    for name in names():
        times: dict[str, list[int]] = {}
        for body in requests_of(FOLDER / name / "otlp" / "requests.pb.zst"):
            for span in decode_protobuf(body).spans:
                times.setdefault(span.trace_id, []).extend((span.start, span.end))
        traces = sorted((min(span_times), max(span_times)) for span_times in times.values())
        overlapping = sum(later[0] < earlier[1] for earlier, later in pairwise(traces))
        assert overlapping >= 4, f"{name}: {overlapping} of {len(traces)} traces overlap the next"


def test_every_recording_is_of_a_framework_that_is_run() -> None:
    """A recording's truth follows from `frameworks.toml` and the script, versions included."""
    known = {framework.name: framework for framework in frameworks()}
    for name in names():
        assert truth_of_recording(name) == truth_json(known[name])


def test_the_page_of_frameworks_agrees_with_the_recordings() -> None:
    """docs/frameworks.md is what page.py writes; `make test-frameworks RECORD=1` rewrites it."""
    assert PAGE.read_text() == page()
