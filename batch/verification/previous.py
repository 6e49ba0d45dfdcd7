"""The check of a bundle against the bundle before it in its chain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...archive.error import SourceError
from ..attestation.envelope import ATTESTATION
from ..attestation.keys import TrustedKey
from ..evidence.files import file_digest
from .attested import AttestedBundle, read_attested, signature_check
from .checks import BundleCheck, CheckResult, failed, not_checked, passed


def previous_check(bundle: AttestedBundle, folder: Path | None, keys: Sequence[TrustedKey]) -> BundleCheck:
    """Compare the attestation of the previous bundle with the one that the statement names.

    With keys, the previous bundle must be signed by them, and its keys must have signed this one too: a key
    is replaced by a statement that both have signed. Without keys, nobody vouches that a redacted previous
    bundle is a copy of the one that the statement names.
    """
    named = bundle.predicate["previous"]
    if folder is None:
        reason = "the bundle is the first of its chain" if named is None else "not given: --previous BUNDLE"
        return not_checked("previous", reason)
    if named is None:
        return failed("previous", "TRL458", "the statement names no previous bundle")
    try:
        previous = read_attested(folder)
    except SourceError as error:
        return failed("previous", "TRL458", f"it cannot be read: {error.code}", [ATTESTATION])
    redaction = previous.predicate["redaction"] or {"original": None}
    if named["sha256"] not in (file_digest(folder / ATTESTATION), redaction["original"]):
        return failed("previous", "TRL458", "the statement names another attestation", [ATTESTATION])
    if previous.predicate["parameters"]["as_of"] != named["as_of"]:
        return failed("previous", "TRL458", "the previous bundle is as of another time", [ATTESTATION])
    if not keys and previous.is_redacted:
        reason = (
            "it states that it is a redacted copy of the named bundle, if its signature holds: --key PUBLIC"
        )
        return not_checked("previous", reason)
    if not keys:
        return passed("previous", "it is the bundle that the statement names")
    signed = signature_check(previous.envelope, keys)
    if signed.result is CheckResult.FAILED:
        return failed("previous", "TRL458", signed.detail, [ATTESTATION])
    signers = {key_id for key_id, _ in bundle.envelope.signatures}
    if not signers & {key_id for key_id, _ in previous.envelope.signatures}:
        return failed(
            "previous", "TRL458", "no key of the previous bundle has signed this one", [ATTESTATION]
        )
    return passed("previous", "it is the bundle that the statement names, and its key has signed this one")
