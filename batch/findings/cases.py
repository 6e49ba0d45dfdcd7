"""Cases from findings: the events of a session up to a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from ...schemas.case_events import case_fields
from ...schemas.event import Kind
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.verdict import Verdict
from .audited_archive import BundleInput
from .findings import session_events


def case_of(source: BundleInput, record: VerdictRecord, scratch: Path) -> list[dict[str, Any]]:
    """Return the events of a verdict's session as those of a case, up to the verdict's own.

    An obligation is unmet when the session closes: then they are all events. `scratch` is an empty folder of
    the caller. Raises SourceError (TRL420) if the archive does not have the event.
    """
    rows = session_events(source, record, scratch)
    last = None if record.verdict is Verdict.UNMET else record.seq
    return [
        case_fields(row)
        for row in rows.with_columns(pl.col("time").to_physical()).to_dicts()
        if row["kind"] != Kind.END.value and (last is None or row["seq"] <= last)
    ]
