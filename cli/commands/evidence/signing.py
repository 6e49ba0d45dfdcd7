"""The options of commands that sign: a key file with its passphrase, or a command for another place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...options import grouped_options

if TYPE_CHECKING:
    from ....batch.attestation.attest import Attesting
    from ....batch.attestation.signers import Signer

F = TypeVar("F", bound=Callable[..., Any])


def key_path_option(help: str, name: str = "--key") -> Callable[[F], F]:
    """Return an option of key files, which can be repeated: the tuple of paths `key`."""
    file = click.Path(path_type=Path, exists=True, dir_okay=False)
    return click.option(name, "key", type=file, multiple=True, metavar="FILE", help=help)


def passphrase_option(help: str) -> Callable[[F], F]:
    """Return the option `--passphrase-file FILE`: the path `passphrase_file`, or None."""
    file = click.Path(path_type=Path, exists=True, dir_okay=False)
    return click.option("--passphrase-file", type=file, metavar="FILE", help=help)


def secret_option() -> Callable[[F], F]:
    """Return the option `--secret FILE` of a redaction: the path `secret`."""
    file = click.Path(path_type=Path, exists=True, dir_okay=False)
    return click.option(
        "--secret", type=file, required=True, metavar="FILE", help="The secret, of 16 bytes or more."
    )


def passphrase_in(path: Path) -> bytes:
    """Return the first line of a file. Raises SourceError (TRL451) if it is empty."""
    from ....archive.error import SourceError

    line, _, _ = path.read_bytes().partition(b"\n")
    if not line.removesuffix(b"\r"):
        raise SourceError("TRL451", str(path), "has no passphrase", "write it on the first line of the file")
    return line.removesuffix(b"\r")


@dataclass(frozen=True, slots=True)
class SigningOptions:
    """The keys that sign, and the passphrase of the private ones; a command signs for a public key."""

    key: tuple[Path, ...]
    signer: str | None
    passphrase_file: Path | None

    def attesting(self) -> Attesting:
        """Return the signers and the clock of an attestation."""
        from ....batch.attestation.attest import Attesting

        return Attesting(self.signers())

    def signers(self) -> tuple[Signer, ...]:
        """Return the signers. Raises SourceError (TRL450, TRL451) for files that are no such keys."""
        from ....batch.attestation.keys import is_encrypted, read_public
        from ....batch.attestation.signers import CommandSigner, KeySigner

        if self.signer is not None:
            if len(self.key) != 1:
                raise click.UsageError("--signer requires --key with the public key of the command.")
            return (CommandSigner(self.signer, read_public(self.key[0])),)
        passphrase = None if self.passphrase_file is None else passphrase_in(self.passphrase_file)
        if (
            passphrase is None
            and any(map(is_encrypted, self.key))
            and click.get_text_stream("stdin").isatty()
        ):
            passphrase = str(click.prompt("Passphrase", hide_input=True, err=True)).encode()
        return tuple(KeySigner.of(path, passphrase) for path in self.key)


KEY_HELP = "Sign the bundle with this private key; with the old and the new one where the key changes."


def signing_options(key_help: str = KEY_HELP) -> Callable[[F], F]:
    """Return the options `--key`, `--signer` and `--passphrase-file`: the SigningOptions `signing`."""
    return grouped_options(
        "signing",
        SigningOptions,
        key_path_option(key_help),
        click.option(
            "--signer",
            metavar="COMMAND",
            help="Sign with a command, which reads the content from standard input; --key is its public key.",
        ),
        passphrase_option("The first line of this file is the passphrase of the key."),
    )
