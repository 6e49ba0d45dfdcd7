"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracline.archive.disk import replacing_file


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    """Until then the other one stays, and nothing is left beside it."""
    file = tmp_path / "chain.tra"
    file.write_text("before")
    with replacing_file(file) as part:
        part.write_text("after")
        assert file.read_text() == "before"
    assert file.read_text() == "after"
    assert list(tmp_path.iterdir()) == [file]


def test_an_error_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    """A half file is deleted."""
    file = tmp_path / "chain.tra"
    file.write_text("before")

    def write_half() -> None:
        with replacing_file(file) as part:
            part.write_text("aft")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write_half()
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]
