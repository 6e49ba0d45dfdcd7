"""`tracline keys`: the keys that sign bundles."""

from __future__ import annotations

import click

from ...lazy import LazyGroup

COMMANDS = {
    "new": ("evidence.new_key", "Make a key that signs bundles."),
}
"""The module of each command, which exports it as `command`, and its line in the help."""


@click.group("keys", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Make the keys that sign bundles: Ed25519, in PEM files that openssl reads."""
