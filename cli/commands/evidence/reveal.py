"""`tracline reveal`: single values of a redacted bundle."""

from __future__ import annotations

from pathlib import Path

import click

from ...options import Command
from .signing import secret_option


@click.command("reveal", cls=Command)
@click.argument("redacted", metavar="OTHER", type=click.Path(exists=True, file_okay=False, path_type=Path))
@secret_option()
@click.option("--event", required=True, metavar="ID", help="The id of the event, as before the redaction.")
@click.option(
    "--original",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="BUNDLE",
    help="The bundle before its redaction: reveal the event's text, too; --event can be the replacement.",
)
def command(redacted: Path, secret: Path, event: str, original: Path | None) -> None:
    """Print the values of an event of the redacted bundle OTHER, each with the key that shows it.

    The output has a line of JSON for each value. `tracline verify OTHER --reveal FILE` checks these lines. A
    key shows a single value: nothing else of the bundle follows from it.
    """
    import msgspec

    from ....batch.redaction.reveal import reveal
    from ....batch.redaction.secret import RedactionSecret

    for each in reveal(redacted, original, RedactionSecret.of(secret), event):
        click.echo(msgspec.json.encode(each))
