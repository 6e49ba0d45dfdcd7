"""`tracline erase`: remove a session from an archive."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ...options import Command
from .signing import SigningOptions, signing_options


@click.command("erase", cls=Command)
@click.argument("archive", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--session", required=True, metavar="ID", help="The session whose rows are erased.")
@click.option("--reason", required=True, metavar="TEXT", help="The reason, which the tombstone states.")
@signing_options("Sign the tombstone with this private key.")
def command(archive: Path, session: str, reason: str, signing: SigningOptions) -> None:
    """Erase the rows of a session from ARCHIVE, and leave a signed tombstone.

    The tombstone has the digests of the files before and afterwards, the number of rows and the reason, and
    not the id of the session. With it `tracline verify --archive` reports the files as erased, not as
    changed. Bundles of earlier audits are not changed.
    """
    from ....batch.attestation.tombstones import erase_session
    from ....rules.model.problem import counted

    signers = signing.signers()
    if not signers:
        raise click.UsageError("a tombstone is signed: give --key.")
    erased = erase_session(archive, session, reason, signers, time.time_ns)
    click.echo(f"erased {counted(erased.rows, 'row')} from {counted(erased.files, 'file')}")
