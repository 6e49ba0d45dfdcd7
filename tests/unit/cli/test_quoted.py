"""Errors and tables quote no more of a text than a person reads; a program's absence is the first error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tracline.cli import tracline

ROOT = Path(__file__).parents[3]
LONG = "a" * 1_000_000
FIELDS: list[dict[str, Any]] = [
    {"pack": LONG},
    {"propositions": {LONG: 'kind == "user"', "asked": 'kind == "user"'}},
    {"propositions": {"asked": LONG}},
    {LONG: 1},
    *(
        {"rules": [{"id": "r", "formula": "asked"} | {name: LONG}]}
        for name in ("id", "severity", "steps", LONG)
    ),
    {"rules": [{"id": "r", "formula": f"always {LONG[:9_000]}"}]},
    {"rules": [{"id": "r", "title": LONG[:150_000], "formula": "always not asked"}]},
]


@pytest.mark.parametrize("fields", FIELDS, ids=range(len(FIELDS)))
def test_a_long_text_of_a_pack_is_quoted_in_part(tmp_path: Path, fields: dict[str, Any]) -> None:
    """`check`, `test` and `audit` write less than 20 KB of whatever a pack's field holds."""
    pack, log = tmp_path / "p.yaml", tmp_path / "log.json"
    whole = {"pack": "p", "propositions": {"asked": 'kind == "user"'}, "rules": []} | fields
    pack.write_text(json.dumps(whole), encoding="utf-8")
    log.write_text(json.dumps([{"role": "user", "content": "hi"}]), encoding="utf-8")
    bundle = ["--rules", str(pack), "--out", str(tmp_path / "bundle")]
    for words in (["check", str(pack)], ["test", str(pack)], ["audit", str(log), *bundle]):
        result = CliRunner().invoke(tracline, words)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert len(result.output) + len(result.stderr) < 20_000


@pytest.mark.slow
@pytest.mark.parametrize("words", [["check", LONG], [LONG], [f"--{LONG}"], ["check", f"--{LONG}"]])
def test_a_long_argument_is_quoted_in_part(words: list[str]) -> None:
    """An error of the command line is shorter than what was given."""
    result = CliRunner().invoke(tracline, words)
    assert result.exit_code == 2
    assert 10 < len(result.output) < 4_000


@pytest.mark.slow
def test_a_run_lists_at_first_what_it_will_skip(tmp_path: Path) -> None:
    """Without Java and Prometheus a run of their folders names both before the first test."""
    environment = {name: value for name, value in os.environ.items() if name != "KAFKA_BOOTSTRAP_SERVERS"}
    line = [sys.executable, "-m", "pytest", "--collect-only", "tests/kafka/test_topics.py", "tests/docker"]
    lines = subprocess.run(
        [*line, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=environment | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    listed = [number for number, text in enumerate(lines) if "WILL SKIP" in text]
    assert {"`java`", "`promtool`", "`docker-compose`"} <= set(
        " ".join(lines[number_of_line] for number_of_line in listed).split()
    )
    assert max(listed) < min(number for number, text in enumerate(lines) if "::test_" in text)
