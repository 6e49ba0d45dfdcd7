"""The page on prediction, executed: its chain, its commands and its Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline

PAGE = Path(__file__).parents[2] / "docs" / "predict.md"


def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cat` shows the files, and each `tracline` prints the lines after it."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    ran = 0
    for part in block.split("$ ")[1:]:
        line, _, shown = part.partition("\n")
        program, *words = shlex.split(line)
        if program == "cat":
            Path(words[0]).write_text(shown, encoding="utf-8")
        else:
            done = CliRunner().invoke(tracline, words)
            assert (done.exit_code, done.stdout) == (0, shown), line
            ran += 1
    assert ran == 2


@pytest.mark.slow
def test_the_python_runs() -> None:
    """The examples of the Python API, with their assertions."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for code in blocks:
        exec(compile(code, str(PAGE), "exec"), {})
