"""A command group that imports the module of a command only when the command runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are listed in a table and imported on demand.

    The table has the module of each command, which exports it as `command`, and its line in the help.
    """

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self._table = table
        # Only the names and lines of these are read: `get_command` never returns them.
        self.commands = {name: click.Command(name, short_help=line) for name, (_, line) in table.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Return the commands in the order of the table."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command and return its `command`, or None for an unknown name."""
        if cmd_name not in self._table:
            return None
        return importlib.import_module(f".commands.{self._table[cmd_name][0]}", __package__).command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command like click; the error for an unknown one suggests a similar name."""
        name = args[0]
        if name not in self._table and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches  # only errors need it

            for close in get_close_matches(name, self._table, n=1):
                ctx.fail(f"No such command {name!r}. Did you mean {close!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands by their lines without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._table.items()])
