"""Expected errors of the commands: a code, the place, what is wrong, and what to do instead."""

from __future__ import annotations

import sys
from typing import Any

import click

from .terminal import quoted

CODES: dict[str, str] = {
    "TRL601": "a file cannot be read or written",
    "TRL602": "a line of a trace is not a JSON array of names",
    "TRL603": "more of the input was rejected than is allowed",
    "TRL604": "an argument is not UTF-8",
    "TRL605": "no event could be read from the spans",
    "TRL606": "`tracline serve` does not answer, or returned an unexpected response",
    "TRL607": "the output file exists",
    "TRL608": "a source has no events",
    "TRL609": "a finding that cannot be made an example of its rule",
    "TRL610": "tracline.toml is not valid TOML",
    "TRL611": "an unknown setting",
    "TRL612": "an invalid value of a setting",
    "TRL620": "a required package is not installed",
}
"""The codes of the commands, in addition to those of `rules/model/problem.py`; a test triggers each."""


class CommandError(click.ClickException):
    """An expected error: its text goes to standard error as it is, and the exit code is 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the text without click's prefix: it states its place."""
        click.echo(self.message, file=file or sys.stderr)


def command_error(code: str, where: str, what: str, hint: str) -> CommandError:
    """Return the error `where: CODE what`, with the hint on a separate line."""
    assert code in CODES, f"{code} is not in the table of codes"
    return coded_error(code, where, what, hint)


def coded_error(code: str, where: str, what: str, hint: str) -> CommandError:
    """Return the same as `command_error`, for a code of another room."""
    return CommandError(f"{quoted(where)}: {code} {quoted(what)}\n  hint: {quoted(hint)}")


def file_error(error: OSError) -> CommandError:
    """Return an error of the operating system with the file that it is about."""
    where = "tracline" if error.filename is None else str(error.filename)
    hint = "check the path and its permissions"
    return command_error("TRL601", where, f"{(error.strerror or str(error)).lower()}", hint)
