"""The errors of `tracline stream` if one of its commands cannot go on."""

from __future__ import annotations

import sys
from types import ModuleType

import click
import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.cli.commands.stream.group import COMMANDS
from tracline.stream.error import StreamError
from tracline.stream.group.broker_errors import TopicAuthorizationFailedError


def run(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> Result:
    """Run a command of the group that raises the error."""

    @click.command()
    def command() -> None:
        raise fault

    module = ModuleType("tracline.cli.commands.stream.faulty")
    monkeypatch.setattr(module, "command", command, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "faulty", ("stream.faulty", "Fails."))
    return CliRunner().invoke(tracline, ["stream", "faulty"], prog_name="tracline")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            StreamError("TRL724", "a topic is missing", "make it"),
            "TRL724 a topic is missing\n  hint: make it\n",
        ),
        (
            ModuleNotFoundError("no", name="faust"),
            "TRL620 the package faust is not installed\n  hint: install tracline with its extra `stream`",
        ),
        (TopicAuthorizationFailedError("SECRET"), "TRL723 Kafka error: TopicAuthorizationFailed"),
    ],
)
def test_an_error_of_the_environment_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, fault: Exception, message: str
) -> None:
    """The command's name, the code and a hint; of Kafka's own errors the name alone."""
    result = run(monkeypatch, fault)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"tracline stream faulty: {message}")
    assert "SECRET" not in result.stderr


@pytest.mark.parametrize("fault", [ModuleNotFoundError("no", name="tracline.x"), ValueError("no")])
def test_a_fault_of_our_own_is_none_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """It is raised as it is, and shown with its place by the caller."""
    assert run(monkeypatch, fault).exception is fault
