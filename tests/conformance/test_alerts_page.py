"""The steps of the page on alerts from an alert to its certificate, executed in a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.event_rows import PACK, call, session, user, write

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "alerts.md"
[RECIPE] = re.findall(r"^```sh recipe\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_recipe_leads_to_the_certificate(tmp_path: Path) -> None:
    """The findings are those of the rule, and one verdict is checked out of the files that can have it."""
    (tmp_path / "desk.yaml").write_text(PACK)
    for number in range(3):
        rows = session(f"c-{number}", user("hello"), user("no!"), call())
        write(tmp_path / "archive" / f"{number}.parquet", rows)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["sh", "-e", "-c", RECIPE]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "violated desk/calm at event 2 of session c-0 follows from 4 rows, in 1 file" in done.stdout
    assert '"session_id":"c-0"' in (tmp_path / "findings" / "certificates.jsonl").read_text()
