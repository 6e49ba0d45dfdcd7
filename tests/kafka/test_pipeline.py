"""`make pipeline`: what a developer sees of the whole pipeline with the simulated bot in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import need_own

pytestmark = pytest.mark.slow
WAIT_S = 300


def test_the_pipeline_finds_what_the_bot_did_and_the_spike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All planted breaks and no others, an alert of the spike's rule, and an audit with the same ids.

    Settings in the caller's environment are of another pipeline, and change nothing.
    """
    need_own()
    monkeypatch.setenv("TRACLINE_KAFKA_PREFIX", "another")
    (tmp_path / "tracline.toml").write_text('[kafka]\nspans_topic = "others_spans"\n')
    done = subprocess.run(
        [sys.executable, "-m", "tracline.examples.pipeline"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    planted = re.search(r"broke a rule (\d+) times", done.stdout)
    found = re.search(r"found (\d+) of these and no others", done.stdout)
    assert planted is not None
    assert found is not None
    assert planted[1] == found[1]
    assert int(found[1]) > 10
    assert re.search(r"^Alert: confirm-before-refund by retail-assistant, ", done.stdout, re.MULTILINE)
    given = re.search(
        r"gave (\d+) verdicts; an audit of the archive gives (\d+), with the same ids", done.stdout
    )
    assert given is not None
    assert given[1] == given[2]
    assert int(given[1]) >= int(found[1])
