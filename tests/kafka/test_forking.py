"""A forked process of tracline does what the command does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tracline.examples.local_kafka import free_port
from tracline.stream.process.faultpoints import VARIABLE, TrialFault

from ..support.processes import forking

pytestmark = pytest.mark.slow
TRACLINE = Path(sys.executable).with_name("tracline")
WAIT_S = 60.0


COMMANDS = (
    ("--version",),
    ("nothing",),
    ("check", "pack.yaml"),
    ("stream", "lag"),
    ("stream", "rekey", "--wait-s", "0"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_it_prints_and_exits_as_the_command_does(words: tuple[str, ...], tmp_path: Path) -> None:
    """Arguments, environment and folder reach it; its two outputs and its exit code are the same."""
    (tmp_path / "pack.yaml").write_text("pack: small\nrules: [{id: r, formula: unknown}]\n")
    variables = os.environ | {"TRACLINE_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}"}
    expected = subprocess.run(
        [TRACLINE, *words],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    forked = forking.run(words, variables, WAIT_S, tmp_path)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )


def test_a_trial_that_is_killed_refuses_the_rules(tmp_path: Path) -> None:
    """The trial is a process of its own, and the error names the rule."""
    (tmp_path / "pack.yaml").write_text(
        "pack: small\npropositions: {p: text is not null}\nrules: [{id: r, formula: p}]\n"
    )
    done = forking.run(
        ("serve", "--rules", "pack.yaml"), os.environ | {VARIABLE: f"{TrialFault.RULE}:1"}, WAIT_S, tmp_path
    )
    assert done.returncode == 2
    assert "TRL748" in done.stderr
    assert "killed by SIGKILL, at rule small/r" in done.stderr


def test_a_signal_ends_it(tmp_path: Path) -> None:
    """Its exit code is minus the signal, and other processes of the server go on."""
    variables = os.environ | {"TRACLINE_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}"}
    waiting = ("stream", "rekey", "--wait-s", "600")
    first, second = (forking.start(waiting, variables, tmp_path / name) for name in ("first", "second"))
    try:
        first.kill()
        assert first.wait(WAIT_S) == -signal.SIGKILL
        assert first.poll() == -signal.SIGKILL
        assert second.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(0.1)
    finally:
        second.kill()
    assert second.wait(WAIT_S) == -signal.SIGKILL
