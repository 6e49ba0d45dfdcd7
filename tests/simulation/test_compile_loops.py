"""A live process has compiled its loops before it joins its group."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..frameworks.framework import ROOT


@pytest.mark.slow
def test_no_loop_is_compiled_once_a_process_works() -> None:
    """Both processes compile their loops, or load them from a cache, for the samples; none for any load."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.simulation.loops_compiled_before"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    rekey, monitor, *late = done.stdout.split()
    assert late == []
    assert min(int(rekey), int(monitor)) > 1
