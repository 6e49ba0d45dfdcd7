"""`tracline redact`: a bundle without texts and without ids that can be guessed."""

from __future__ import annotations

from pathlib import Path

import click

from ...options import Command, out_option
from .signing import SigningOptions, secret_option, signing_options


@click.command("redact", cls=Command)
@click.argument("bundle", type=click.Path(exists=True, file_okay=False, path_type=Path))
@out_option("OTHER", "The folder for the redacted bundle.")
@secret_option()
@click.option("--sessions", is_flag=True, help="Replace the ids of sessions, too.")
@signing_options()
def command(bundle: Path, out: Path, secret: Path, sessions: bool, signing: SigningOptions) -> None:
    """Write a copy of BUNDLE without texts, and without ids that can be guessed.

    The ids of events and verdicts are digests of texts and arguments, so they are replaced, too, and so are
    slices and the names of input files. Equal values have equal replacements, which the secret keys. The
    copy is signed and can be verified.
    """
    from ....batch.redaction.redact import redact
    from ....batch.redaction.secret import RedactionSecret

    redact(bundle, out, RedactionSecret.of(secret), signing.signers(), sessions=sessions)
    click.echo(f"Bundle: {out}")
