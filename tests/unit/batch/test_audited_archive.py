"""The rows and times of the inputs that a bundle names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import pack_text

from ...support.event_rows import PACK, session, user, write
from ...support.evidence.bundle_lines import bundle_lines

RULES = pack_text(PACK)
TIMES = ("2026-02-17T12:00:00.000000000Z", "2026-02-17T12:00:02.000000000Z")


def inputs(source: Path, bundle: Path) -> list[dict[str, Any]]:
    """Return the lines of an audit's inputs."""
    audit(source, RULES, bundle, AuditOptions())
    return bundle_lines(bundle, "inputs.jsonl")


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("unit", ["ns", "us"])
def test_event_files_have_their_rows_and_times(tmp_path: Path, statistics: bool, unit: Any) -> None:
    """From the footer where it has them, else from the rows."""
    file = write(
        tmp_path / "archive" / "events.parquet", session("s", user("a"), user("b"), user("c"), end=False)
    )
    frame = pl.read_parquet(file).with_columns(pl.col("time").dt.cast_time_unit(unit))
    frame.write_parquet(file, statistics=statistics)
    [line] = inputs(file.parent, tmp_path / "bundle")
    assert (line["rows"], line["first_time"], line["last_time"]) == (3, *TIMES)


def test_chat_logs_have_their_messages_and_no_synthetic_times(tmp_path: Path) -> None:
    """A log without times has none; its rows are its messages."""
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats" / "log.json").write_text(json.dumps([{"messages": messages}]))
    [line] = inputs(tmp_path / "chats", tmp_path / "bundle")
    assert (line["rows"], line["first_time"], line["last_time"]) == (2, None, None)
