"""The findings of a bundle as a table for spreadsheets."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ...schemas.display import visible
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.verdict import BREACHES
from ..evidence.bundle import SUMMARY, VERDICTS, read_verdicts
from .damage import damages

COLUMNS = (
    *("severity", "pack", "rule", "title", "verdict", "agent", "session_id", "occurrence", "slice"),
    *("time", "seq", "event_id", "late", "history", "id"),
)

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The first characters by which spreadsheets take a cell for a formula."""


def write_findings(bundle: Path, out: TextIO) -> None:
    """Write the violated and unmet verdicts of a bundle as CSV, a row each, in the order of the bundle.

    A cell that a spreadsheet would compute begins with an apostrophe. Raises SourceError (TRL424) if a file
    of the bundle is missing or damaged.
    """
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in _rows(bundle):
        table.writerow(row)


def _rows(bundle: Path) -> Iterator[Iterator[str]]:
    with damages(bundle):
        rules: Mapping[str, Any] = msgspec.json.decode((bundle / SUMMARY).read_bytes())["rules"]
        titles = {(entry["pack"], entry["id"]): entry["title"] for entry in rules.values()}
        for record in read_verdicts(bundle / VERDICTS):
            if record.verdict in BREACHES:
                yield _cells(record, titles.get((record.pack, record.rule), ""))


def _cells(record: VerdictRecord, title: str) -> Iterator[str]:
    for name in COLUMNS:
        value = title if name == "title" else getattr(record, name)
        text = "" if value is None else visible(str(value))
        yield f"'{text}" if text.startswith(_FORMULA) else text
