"""An archive that an earlier release wrote is read and judged as that release judged it.

`stored/archive_of_20261123` was imported by the last commit before the rooms had folders: two conversations
of a chat log, and the spans of a recording of the Anthropic SDK with OpenLLMetry.
`verdicts_of_20261123.json` has the verdicts of that commit's audit by `desk.yaml`, without their ids, which
depend on the version of the semantics.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tracline.archive.manifest import read_manifest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import load_packs

from ...support.evidence.bundle_lines import bundle_lines

STORED = Path(__file__).parent / "stored"
ARCHIVE = STORED / "archive_of_20261123"


@pytest.mark.slow
def test_an_archive_of_the_release_before_has_the_verdicts_of_that_release(tmp_path: Path) -> None:
    """Rows of chat logs and candidates of spans, by the manifest of that release; nothing is rejected."""
    result = audit(ARCHIVE, load_packs([STORED / "desk.yaml"]), tmp_path / "bundle", AuditOptions())
    found = [
        [line[name] for name in ("session_id", "occurrence", "seq", "rule", "verdict", "event_id")]
        for line in bundle_lines(tmp_path / "bundle")
    ]
    assert sorted(found) == json.loads((STORED / "verdicts_of_20261123.json").read_text())
    assert not result.population.rejected.total()
    assert result.summary["population"]["sessions"] == 5


def test_the_manifest_of_the_release_before_is_read() -> None:
    """It lists both files, with the spans that they were imported from."""
    manifest = read_manifest(ARCHIVE)
    assert sorted(entry.file.partition("/")[0] for entry in manifest.entries) == [
        "day=2026-11-22",
        "day=unknown",
    ]
    assert len(manifest.spans) == 1
