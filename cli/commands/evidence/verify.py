"""`tracline verify`: check a bundle, with or without its archive."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...options import Command, RuleSelection, format_option, selected_rules_options
from ...source import audit_options
from ...terminal import quoted
from ..predict.reading import read_chain
from .signing import key_path_option

if TYPE_CHECKING:
    from ....batch.verification.attested import AttestedBundle
    from ....batch.verification.checks import BundleCheck
    from ....batch.verification.single_verdict import WantedVerdict
    from ....batch.verification.verify import BundleVerification

_WORDS = {"passed": "passed", "failed": "FAILED", "not_checked": "not checked"}


@click.command("verify", cls=Command)
@click.argument("bundle", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@key_path_option("Check that this public key has signed the bundle; can be repeated.")
@click.option(
    "--archive", multiple=True, metavar="ARCHIVE", help="Compare the files of the archive; can be repeated."
)
@click.option("--rerun", is_flag=True, help="Audit the archive again and compare the results.")
@click.option(
    "--predict",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="CHAIN",
    help="With --rerun: the chain whose risks the audit followed, to follow them again.",
)
@click.option(
    "--previous",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="BUNDLE",
    help="Check that this is the bundle before it in its chain.",
)
@click.option(
    "--tsa",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="CERT",
    help="Check the timestamp by the certificates of its authority, in PEM.",
)
@click.option(
    "--reveal",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Check the revealed values of a redacted bundle.",
)
@click.option("--verdict", metavar="ID", help="Judge only the session of this verdict, from the archive.")
@click.option(
    "--session",
    metavar="ID",
    help="The session of the verdict, without BUNDLE; else all are judged to find it.",
)
@selected_rules_options(required=False)
@format_option("table", "json")
def command(
    bundle: Path | None,
    key: tuple[Path, ...],
    archive: tuple[str, ...],
    rerun: bool,
    predict: Path | None,
    previous: Path | None,
    tsa: Path | None,
    reveal: Path | None,
    verdict: str | None,
    session: str | None,
    selection: RuleSelection,
    format: str,
) -> None:
    """Check BUNDLE: its files, its signature, and what its verdicts follow from.

    With --verdict only one session is judged, in seconds: by the rules in BUNDLE, or without one by --rules,
    or else by those that judged it live, which an archive of tracline has.

    Each check passed, failed or was not made. The exit code is 0 if none failed and all were made that an
    option asks for, 1 if one failed, and 2 if one that an option asks for could not be made, or if the bundle
    has no attestation that can be read.
    """
    from ....batch.attestation.keys import read_public
    from ....batch.attestation.timestamp import read_certificates
    from ....batch.redaction.reveal import reveal_check
    from ....batch.verification.single_verdict import WantedVerdict
    from ....batch.verification.verify import VerificationRequest, verify

    if (rerun or verdict is not None) and not archive:
        raise click.UsageError(f"{'--rerun' if rerun else '--verdict'} requires --archive.")
    if predict is not None and not rerun:
        raise click.UsageError("--predict requires --rerun.")
    _check_judging(bundle, verdict, is_given=session is not None or selection.is_given)
    threads = os.cpu_count() or 1
    wanted = None if verdict is None else WantedVerdict(verdict, archive, threads)
    if bundle is None:
        assert wanted is not None, "the options are checked"
        _finish(_archived(wanted, session, selection), format)
        return
    keys = tuple(map(read_public, key))
    further: dict[str, Callable[[AttestedBundle], BundleCheck]] = {}
    if reveal is not None:
        further["reveal"] = partial(reveal_check, revealed=reveal.read_bytes().splitlines())
    request = VerificationRequest(
        keys=keys,
        archive=archive,
        rerun=rerun,
        previous=previous,
        threads=threads,
        authorities=() if tsa is None else tuple(read_certificates(tsa)),
        further=further,
        verdict=wanted,
        chain=None if predict is None else read_chain(predict),
    )
    _finish(verify(bundle, request), format)


def _check_judging(bundle: Path | None, verdict: str | None, *, is_given: bool) -> None:
    """Check that a session or rules, where they are given, are those of a verdict without a bundle."""
    if verdict is None and (bundle is None or is_given):
        raise click.UsageError(
            "BUNDLE is missing." if bundle is None else "--session and --rules need --verdict."
        )
    if bundle is not None and is_given:
        raise click.UsageError("BUNDLE has the session and the rules: leave out --session and --rules.")


def _archived(wanted: WantedVerdict, session: str | None, selection: RuleSelection) -> BundleVerification:
    """Check a verdict without a bundle."""
    from ....batch.verification.single_verdict import archived_verdict_check
    from ....batch.verification.verify import BundleVerification

    rules = selection.load() if selection.is_given else None
    check = archived_verdict_check(wanted, session, rules, audit_options("UTC"))
    return BundleVerification(None, (check,), frozenset({"verdict"}))


def _finish(found: BundleVerification, format: str) -> None:
    """Print the checks, and exit with their code."""
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
