"""Errors of the world that the commands themselves find: a code, what is wrong, where, what to do instead."""

from __future__ import annotations

import sys
from typing import Any

import click

from .terminal import quoted

CODES: dict[str, str] = {
    "TRL601": "a file cannot be read or written",
    "TRL602": "a line of a trace is not a JSON array of names",
    "TRL603": "more of the input was rejected than is allowed",
    "TRL604": "an argument that is not UTF-8",
    "TRL605": "spans came, and no event was read from them",
    "TRL606": "a `tracline serve` that does not answer, or not as one",
    "TRL607": "a file that is to be written is there already",
    "TRL608": "a source without any event",
    "TRL610": "tracline.toml is no TOML",
    "TRL611": "a setting that there is not",
    "TRL612": "a setting's value cannot be used",
    "TRL620": "a part of tracline that is not installed",
}
"""The codes of this room, beside those of `rules/model/problem.py`; each has a test that triggers it."""


class CommandError(click.ClickException):
    """An error of the world: its text goes to standard error as it is, and the exit code is 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the text, without click's prefix: it names its own place."""
        click.echo(self.message, file=file or sys.stderr)


def command_error(code: str, where: str, what: str, hint: str) -> CommandError:
    """The error `where: CODE what`, and the hint on a line of its own."""
    assert code in CODES, f"{code} is not in the table of codes"
    return coded_error(code, where, what, hint)


def coded_error(code: str, where: str, what: str, hint: str) -> CommandError:
    """As `command_error`, with a code of another room's."""
    return CommandError(f"{quoted(where)}: {code} {quoted(what)}\n  hint: {quoted(hint)}")


def package_error(error: ModuleNotFoundError, where: str) -> CommandError | None:
    """What to install where a package is missing that a live process needs; None where it is our own."""
    if (error.name or "").startswith("tracline"):
        return None
    hint = "install tracline with its extra `stream`: pip install '.[stream]' in a clone"
    return command_error("TRL620", where, f"needs the package {error.name}", hint)


def file_error(error: OSError) -> CommandError:
    """The operating system's refusal, with the file it is about."""
    where = "tracline" if error.filename is None else str(error.filename)
    hint = "check that the path is right and that you may read (or write) there"
    return command_error("TRL601", where, f"{(error.strerror or str(error)).lower()}", hint)
