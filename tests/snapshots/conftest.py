"""Snapshots: texts that a person reads, in files beside the tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "texts"
REWRITE = bool(os.environ.get("TRACLINE_WRITE_SNAPSHOTS"))


@pytest.fixture
def snapshot() -> Callable[[str, str], None]:
    """`snapshot(name, text)` fails unless `texts/NAME` holds exactly that text.

    With `TRACLINE_WRITE_SNAPSHOTS=1` in the environment of pytest it writes the file instead; the change is
    then read in the diff.
    """

    def compare(name: str, text: str) -> None:
        path = FOLDER / name
        if REWRITE:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no snapshot {name}: run the test once with TRACLINE_WRITE_SNAPSHOTS=1"
        assert text == path.read_text(encoding="utf-8")

    return compare
