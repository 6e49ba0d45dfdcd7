"""`tracline keys new`: make a key that signs bundles."""

from __future__ import annotations

from pathlib import Path

import click

from ...options import Command
from .signing import passphrase_in, passphrase_option


@click.command("new", cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--passphrase", "asks", is_flag=True, help="Ask for a passphrase that encrypts the private key."
)
@passphrase_option("Encrypt the private key with the first line of this file.")
def command(file: Path, asks: bool, passphrase_file: Path | None) -> None:
    """Write a new private key to FILE, readable by its owner only, and its public key to FILE.pub.

    `tracline audit --key FILE` signs with the private key, and `tracline verify --key FILE.pub` checks the
    signature. Existing files are not overwritten.
    """
    from ....batch.attestation.keys import PUBLIC_SUFFIX, new_key

    passphrase = None if passphrase_file is None else passphrase_in(passphrase_file)
    if asks and passphrase is None:
        text = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
        passphrase = str(text).encode()
    key = new_key(file, passphrase)
    click.echo(f"private key  {file}")
    click.echo(f"public key   {file}{PUBLIC_SUFFIX}")
    click.echo(f"id           {key.id}")
