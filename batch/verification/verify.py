"""Verification of a bundle: every check in a fixed order, each passed, failed or not checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.x509 import Certificate

from ...predict.folder.learned_chain import LearnedChain
from ..attestation.keys import TrustedKey
from .archive_files import compare_archive
from .attested import (
    AttestedBundle,
    digests_check,
    files_check,
    format_check,
    read_attested,
    signature_check,
)
from .checks import BundleCheck, CheckResult, guarded, not_checked
from .derived import certificates_check, ids_check, report_check, summary_check, waivers_check
from .previous import previous_check
from .reperformed import rerun_check
from .single_verdict import WantedVerdict, stated_verdict_check
from .stamped import timestamp_check

_OF_ALL_VERDICTS = (
    *("format", "timestamp", "previous", "ids", "certificates"),
    *("summary", "waivers", "report", "archive", "rerun"),
)
"""The checks that are not made with a single verdict."""

FurtherCheck = Callable[[AttestedBundle], BundleCheck]
"""A check of a bundle that a flag asks for."""


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """The flags of a verification: trusted keys, the archive, whether to audit again, the previous bundle.

    `authorities` are the certificates of trusted timestamp authorities.
    `further` are checks that flags ask for, by name; they are made last. With `verdict`, that verdict is
    checked, and of all others only those of the attestation. `chain` is the one that the audit
    followed.
    """

    keys: tuple[TrustedKey, ...] = ()
    archive: tuple[str, ...] = ()
    rerun: bool = False
    previous: Path | None = None
    threads: int = 1
    authorities: tuple[Certificate, ...] = ()
    further: Mapping[str, FurtherCheck] = field(default_factory=dict[str, "FurtherCheck"])
    verdict: WantedVerdict | None = None
    chain: LearnedChain | None = None

    @property
    def asked(self) -> frozenset[str]:
        """Return the checks that a flag asks for."""
        if self.verdict is not None:
            return frozenset({"verdict", *(("signature",) if self.keys else ())})
        flags = {
            "signature": self.keys,
            "timestamp": self.authorities,
            "previous": self.previous,
            "archive": self.archive,
            "rerun": self.rerun,
        }
        return frozenset(name for name, flag in flags.items() if flag) | self.further.keys()


@dataclass(frozen=True, slots=True)
class BundleVerification:
    """The checks of a bundle, or of a verdict without one. `asked` are those that a flag asked for."""

    bundle: Path | None
    checks: tuple[BundleCheck, ...]
    asked: frozenset[str]

    @property
    def exit_code(self) -> int:
        """Return 1 if a check failed, 2 if a check that was asked for was not made, else 0."""
        if any(check.result is CheckResult.FAILED for check in self.checks):
            return 1
        unmade = {check.check for check in self.checks if check.result is CheckResult.NOT_CHECKED}
        return 2 if unmade & self.asked else 0

    def as_json(self) -> dict[str, Any]:
        """Return the verification as data."""
        checks = [asdict(each) for each in self.checks]
        bundle = None if self.bundle is None else str(self.bundle)
        return {"bundle": bundle, "ok": self.exit_code == 0, "checks": checks}


def verify(bundle: Path, request: VerificationRequest) -> BundleVerification:
    """Check a bundle, and write nothing.

    Raises SourceError (TRL453, TRL454, TRL455) if its attestation is missing, damaged or of another version.
    """
    return BundleVerification(bundle, tuple(checks(read_attested(bundle), request)), request.asked)


def checks(bundle: AttestedBundle, request: VerificationRequest) -> Iterator[BundleCheck]:
    """Yield the checks in their order, each as it is made."""

    def derived(name: str, make: Callable[[AttestedBundle], BundleCheck]) -> BundleCheck:
        return guarded(name, "TRL460", lambda: make(bundle))

    yield guarded("files", "TRL456", lambda: files_check(bundle))
    yield guarded("digests", "TRL456", lambda: digests_check(bundle))
    if request.verdict is not None:
        yield from _single(bundle, request, request.verdict)
        return
    yield guarded("format", "TRL454", lambda: format_check(bundle))
    yield _signature(bundle, request)
    yield guarded("timestamp", "TRL459", lambda: timestamp_check(bundle, request.authorities))
    yield guarded("previous", "TRL458", lambda: previous_check(bundle, request.previous, request.keys))
    yield derived("ids", ids_check)
    yield derived("certificates", certificates_check)
    yield derived("summary", summary_check)
    yield derived("waivers", waivers_check)
    yield derived("report", report_check)
    yield from _against_archive(bundle, request)
    for name, make in request.further.items():
        yield guarded(name, "TRL464", partial(make, bundle))


def _single(
    bundle: AttestedBundle, request: VerificationRequest, wanted: WantedVerdict
) -> Iterator[BundleCheck]:
    """Yield the checks of a single verdict after those of the files."""
    yield _signature(bundle, request)
    for name in _OF_ALL_VERDICTS:
        yield not_checked(name, "not asked for: --verdict checks a single verdict")
    yield guarded("verdict", "TRL461", lambda: stated_verdict_check(bundle, wanted, request.keys))


def _signature(bundle: AttestedBundle, request: VerificationRequest) -> BundleCheck:
    if not request.keys:
        return not_checked("signature", "no key is given: --key PUBLIC")
    return signature_check(bundle.envelope, request.keys)


def _against_archive(bundle: AttestedBundle, request: VerificationRequest) -> Iterator[BundleCheck]:
    if not request.archive:
        yield not_checked("archive", "no archive is given: --archive ARCHIVE")
        yield not_checked("rerun", "not asked for: --archive ARCHIVE --rerun")
        return
    erased: tuple[str, ...] = ()

    def compared() -> BundleCheck:
        nonlocal erased
        comparison = compare_archive(bundle, request.archive, request.keys)
        erased = comparison.erased
        return comparison.check

    yield guarded("archive", "TRL461", compared)
    if request.rerun and erased:
        yield not_checked("rerun", "rows of the archive are erased")
        return
    if not request.rerun:
        yield not_checked("rerun", "not asked for: --rerun")
        return
    yield guarded(
        "rerun", "TRL461", lambda: rerun_check(bundle, request.archive, request.threads, request.chain)
    )
