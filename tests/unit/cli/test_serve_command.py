"""`tracline serve` before it serves."""

from __future__ import annotations

import subprocess
import sys

import pytest

HIDDEN = """
import sys

import pytest
sys.modules["uvicorn"] = None
from tracline.cli import main
sys.argv = ["tracline", "serve", "--rules", "privacy"]
main()
"""


@pytest.mark.slow
def test_a_part_that_is_not_installed_is_named() -> None:
    """Without the extra `stream` the command names what to install, and exits with 2."""
    done = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "TRL620 the package uvicorn is not installed" in done.stderr
    assert "pip install '.[stream]'" in done.stderr
