"""Nightly audits as judged, over archives whose rules change."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tracline.batch.audit.as_judged import audit_as_judged
from tracline.batch.nights.night_options import night_options
from tracline.batch.prepare.options import AuditOptions
from tracline.schemas.time import NS

from ...support.event_rows import START, call, result, session, user
from ...support.evidence.bundle_lines import bundle_lines
from .test_as_judged import archive

pytestmark = pytest.mark.slow


def test_nights_as_judged_are_one_audit_as_judged(tmp_path: Path) -> None:
    """Each session stands in the night of its close, judged by the sets that judged it."""
    rows = [
        *session("s", user("hello"), call("pay"), user("now!"), call("pay"), result(), user("why?")),
        *session("t", user("well!"), user("well?"), call("odd"), start=START + 100 * NS),
        *session("u", user("no!"), user("no?"), start=START + 90 * NS, end=False),
        *session("v", user("no!"), user("no?"), start=START + 200 * NS),
    ]
    root = archive(tmp_path / "live", (rows, "aaabbbb" + "aaab" + "ab" + "bbb"))
    ends = [START + seconds * NS for seconds in (50, 101, 150, 300)]
    found: list[dict[str, Any]] = []
    for number, (begin, end) in enumerate(pairwise([START - NS, *ends])):
        options = night_options([str(root)], AuditOptions(as_of=end, satisfied=True), begin, as_judged=True)
        audit_as_judged(root, tmp_path / f"night-{number}", options)
        found += bundle_lines(tmp_path / f"night-{number}")
    audit_as_judged(root, tmp_path / "whole", AuditOptions(as_of=ends[-1], satisfied=True))
    closed = [each for each in bundle_lines(tmp_path / "whole") if each["session_id"] != "u"]
    assert {each["session_id"] for each in closed} == {"s", "t", "v"}
    assert sorted(found, key=lambda each: each["id"]) == sorted(closed, key=lambda each: each["id"])
