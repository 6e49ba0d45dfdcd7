"""`tracline verify`: check a bundle, with or without its archive."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...options import Command, format_option
from ...terminal import quoted
from .signing import key_path_option

if TYPE_CHECKING:
    from ....batch.verification.attested import AttestedBundle
    from ....batch.verification.checks import BundleCheck
    from ....batch.verification.verify import BundleVerification

_WORDS = {"passed": "passed", "failed": "FAILED", "not_checked": "not checked"}


@click.command("verify", cls=Command)
@click.argument("bundle", type=click.Path(exists=True, file_okay=False, path_type=Path))
@key_path_option("Check that this public key has signed the bundle; can be repeated.")
@click.option(
    "--archive", multiple=True, metavar="ARCHIVE", help="Compare the files of the archive; can be repeated."
)
@click.option("--rerun", is_flag=True, help="Audit the archive again and compare the results.")
@click.option(
    "--previous",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="BUNDLE",
    help="Check that this is the bundle before it in its chain.",
)
@click.option(
    "--reveal",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Check the revealed values of a redacted bundle.",
)
@format_option("table", "json")
def command(
    bundle: Path,
    key: tuple[Path, ...],
    archive: tuple[str, ...],
    rerun: bool,
    previous: Path | None,
    reveal: Path | None,
    format: str,
) -> None:
    """Check BUNDLE: its files, its signature, and what its verdicts follow from.

    Each check passed, failed or was not made. The exit code is 0 if none failed and all were made that an
    option asks for, 1 if one failed, and 2 if one that an option asks for could not be made, or if the bundle
    has no attestation that can be read.
    """
    from ....batch.attestation.keys import read_public
    from ....batch.redaction.reveal import reveal_check
    from ....batch.verification.verify import VerificationRequest, verify

    if rerun and not archive:
        raise click.UsageError("--rerun requires --archive.")
    keys = tuple(map(read_public, key))
    further: dict[str, Callable[[AttestedBundle], BundleCheck]] = {}
    if reveal is not None:
        further["reveal"] = partial(reveal_check, revealed=reveal.read_bytes().splitlines())
    request = VerificationRequest(keys, archive, rerun, previous, os.cpu_count() or 1, further)
    found = verify(bundle, request)
    _print(found, format)
    if found.exit_code:
        click.get_current_context().exit(found.exit_code)


def _print(found: BundleVerification, format: str) -> None:
    """Print the checks, a line each."""
    if format == "json":
        import msgspec

        click.echo(msgspec.json.encode(found.as_json()))
        return
    for check in found.checks:
        word = click.style(f"{_WORDS[check.result]:<11}", fg="red" if check.result == "failed" else None)
        click.echo(f"{word}  {check.check:<12}  {quoted(check.detail)}")
        for name in check.files:
            click.echo(f"{'':<27}{quoted(name)}")
