"""The page on the command line describes what the commands do."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import click
from tracline.cli import COMMANDS
from tracline.schemas.sessions.claim_log import DropReason

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def test_the_formats_of_every_command_are_on_the_page() -> None:
    """The page gives each command that has `--format` exactly the formats that it has."""
    documented: dict[str, set[str]] = {}
    sentence = PAGE.read_text("utf-8").split("`--format` sets")[1].split("\n- ")[0]
    for clause in re.split(r"[;:.]\s", sentence):
        words = re.findall(r"`(\w+)`", clause)
        formats = {word for word in words if word not in COMMANDS}
        documented |= {word: formats for word in words if word in COMMANDS}
    documented["test"] |= documented["check"]
    had = {name: _formats(module) for name, (module, _) in COMMANDS.items()}
    assert documented == {name: formats for name, formats in had.items() if formats}


def test_every_reason_for_which_a_reading_is_dropped_is_explained() -> None:
    """The page has a row for each, and for no other."""
    table = PAGE.read_text("utf-8").split("| reason | meaning |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == [reason.value for reason in DropReason]


def _formats(module: str) -> set[str]:
    """The choices of the command's `--format`, none where it has no such option."""
    command = import_module(f"tracline.cli.commands.{module}").command
    types = [option.type for option in command.params if option.name == "format"]
    return {choice for kind in types if isinstance(kind, click.Choice) for choice in kind.choices}
