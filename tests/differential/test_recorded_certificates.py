"""The checker on what real agent frameworks recorded, and on the logs of a folder if there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import load_packs

from ..support.checker import derived
from ..support.evidence.bundle_lines import bundle_lines

RECORDINGS = Path(__file__).parents[1] / "frameworks" / "recordings"
LOGS = os.environ.get("RECORDED_LOGS")
"""A folder with recorded logs, each a file or a folder."""


@pytest.mark.slow
def test_recorded_verdicts_follow_from_their_certificates(tmp_path: Path) -> None:
    """Each violated and unmet verdict of the shipped packs follows, by table and meaning."""
    sources = [RECORDINGS, *(sorted(Path(LOGS).iterdir()) if LOGS else ())]
    rules = load_packs(["customer-service", "privacy", "tool-hygiene"])
    for source in sources:
        audit(source, rules, tmp_path / "bundle", AuditOptions())
        lines = bundle_lines(tmp_path / "bundle")
        count = sum(line["verdict"] in ("violated", "unmet") for line in lines)
        assert derived(tmp_path / "bundle") == (count, 0), source
        assert count > 10 or source != RECORDINGS
