"""The help of every command, and the errors of the command line itself, word for word."""

from collections.abc import Callable

import pytest
from click.testing import CliRunner
from tracline.cli import COMMANDS, tracline
from tracline.cli.commands.alerts import group as alerts
from tracline.cli.commands.predict import group as predict
from tracline.cli.commands.stream import group as stream

Snapshot = Callable[[str, str], None]


def test_help_of_the_group(snapshot: Snapshot) -> None:
    """`tracline --help` lists every command with its line."""
    result = CliRunner().invoke(tracline, ["--help"], prog_name="tracline")
    assert result.exit_code == 0
    snapshot("help/tracline.txt", result.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command(name: str, snapshot: Snapshot) -> None:
    """`tracline COMMAND --help` explains the command, its arguments and its options."""
    result = CliRunner().invoke(tracline, [name, "--help"], prog_name="tracline")
    assert result.exit_code == 0
    snapshot(f"help/{name}.txt", result.stdout)


@pytest.mark.parametrize("name", stream.COMMANDS)
def test_help_of_each_command_of_the_pipeline(name: str, snapshot: Snapshot) -> None:
    """`tracline stream COMMAND --help` does, too."""
    result = CliRunner().invoke(tracline, ["stream", name, "--help"], prog_name="tracline")
    assert result.exit_code == 0
    snapshot(f"help/stream-{name}.txt", result.stdout)


@pytest.mark.parametrize("name", predict.COMMANDS)
def test_help_of_each_command_of_prediction(name: str, snapshot: Snapshot) -> None:
    """`tracline predict COMMAND --help` does, too."""
    result = CliRunner().invoke(tracline, ["predict", name, "--help"], prog_name="tracline")
    assert result.exit_code == 0
    snapshot(f"help/predict-{name}.txt", result.stdout)


@pytest.mark.parametrize("name", alerts.COMMANDS)
def test_help_of_each_command_on_alerts(name: str, snapshot: Snapshot) -> None:
    """`tracline alerts COMMAND --help` does, too."""
    result = CliRunner().invoke(tracline, ["alerts", name, "--help"], prog_name="tracline")
    assert result.exit_code == 0
    snapshot(f"help/alerts-{name}.txt", result.stdout)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("no-command", ""),
        ("misspelt-command", "chekc"),
        ("unknown-option", "audit in --rule x"),
        ("swallowed-argument", "audit --rules a b"),
        ("missing-pack", "check no/such/pack.yaml"),
        ("missing-archive", "audit no/such/archive --rules customer-service --out bundle"),
        ("bad-formula", "eval G(p"),
        ("missing-trace", "eval p no/such/trace.jsonl"),
    ],
)
def test_usage_errors(name: str, line: str, snapshot: Snapshot) -> None:
    """A mistake in calling the command is named with its remedy, and the command exits with 2."""
    result = CliRunner().invoke(tracline, line.split(), prog_name="tracline")
    assert result.exit_code == 2
    snapshot(f"errors/{name}.txt", result.output)
