"""Real agent frameworks with their real instrumentations, played against the scripted model.

`make test-frameworks` runs it: FRAMEWORKS="NAME NAME" for some of them, RECORD=1 to keep their recordings.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from .compare import differences, read
from .framework import ENVIRONMENTS, Framework, frameworks
from .page import write
from .recordings import save
from .run import run

pytestmark = pytest.mark.frameworks
NAMES = os.environ.get("FRAMEWORKS", "")
RAW = Path(os.environ.get("FRAMEWORKS_OUT") or ENVIRONMENTS / "runs")


def requests_in(recording: Path, folder: Path) -> Path:
    """Copy the recorded requests of spans and of log records to one folder, and return it."""
    folder.mkdir()
    for file in (*(recording / "otlp").iterdir(), *(recording / "other").glob("*_v1_logs.pb")):
        shutil.copy(file, folder)
    return folder


@pytest.mark.parametrize("framework", frameworks(NAMES), ids=lambda framework: framework.name)
def test_what_a_framework_sends_is_read_right(framework: Framework, tmp_path: Path) -> None:
    """An audit of the recorded requests, and serve's archive of them, hold the events of the script."""
    ran = run(framework, RAW / framework.name)
    truth = json.loads((ran.recording / "truth.json").read_text())
    seen: dict[str, list[str]] = {}
    for way, source in (("audit", requests_in(ran.recording, tmp_path / "requests")), ("serve", ran.archive)):
        events, verdicts = read(source, tmp_path / way)
        seen[way] = differences(truth, events, verdicts)
        seen[f"{way} counts"] = [f"{len(events)} events, {len({e['session_id'] for e in events})} sessions"]
    seen["answers"] = [f"{path}: {dict(codes)}" for path, codes in ran.answers.items()]
    (ran.recording / "seen.json").write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n")
    if os.environ.get("RECORD"):
        save(ran.recording, framework.name)
        write()
    assert not seen["audit"], "\n".join(seen["audit"])
    assert not seen["serve"], "\n".join(seen["serve"])
