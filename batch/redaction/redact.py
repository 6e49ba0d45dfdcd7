"""`tracline redact`: a bundle without texts and without ids that can be guessed."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from ...archive.error import SourceError
from ..attestation.envelope import ATTESTATION, signed_envelope
from ..attestation.signers import Signer
from ..attestation.statement import statement, tool
from ..evidence.bundle import SCRATCH, write_typed
from ..evidence.files import file_digest
from ..evidence.output_folder import staged
from ..findings.audited_archive import INPUTS
from ..report.page import write_report
from ..verification.attested import AttestedBundle, digests_check, files_check, read_attested
from ..verification.checks import CheckResult
from .fields import ALWAYS, SESSION
from .files import write_redacted
from .redactor import Redactor
from .secret import RedactionSecret

_BLOCK = 10_000


def redact(
    bundle: Path, out: Path, secret: RedactionSecret, signers: Sequence[Signer], *, sessions: bool
) -> None:
    """Write a redacted bundle to `out` and sign it; `sessions` replaces the ids of sessions, too.

    Raises SourceError (TRL462) if the bundle is not as attested, is redacted, was made by another version of
    tracline, or has a field of no known class; then nothing is written.
    """
    original = _original(bundle, out)
    with staged(out) as work:
        scratch = work / SCRATCH
        write_redacted(bundle, work, Redactor(secret, sessions), scratch)
        shutil.rmtree(scratch)
        write_typed(work)
        write_report(work)
        fields = [*ALWAYS, SESSION.value] if sessions else [*ALWAYS]
        digest = hashlib.sha256((bundle / ATTESTATION).read_bytes()).hexdigest()
        predicate = {
            **original.predicate,
            "inputs": {**original.predicate["inputs"], "sha256": file_digest(work / INPUTS)},
            "redaction": {"original": digest, "fields": sorted(fields)},
        }
        envelope = signed_envelope(statement(work, predicate), signers)
        (work / ATTESTATION).write_bytes(envelope.encoded())


def _original(bundle: Path, out: Path) -> AttestedBundle:
    """Return the bundle to redact."""
    original = read_attested(bundle)
    if original.is_redacted:
        raise _refused(bundle, "is redacted", "redact the original")
    if out.resolve() == bundle.resolve():
        raise _refused(bundle, "would replace itself", "choose another folder for --out")
    made_by, version = original.predicate["tool"]["version"], tool()["version"]
    if made_by != version:
        raise _refused(bundle, f"is of tracline {made_by}, and this is {version}", "use that version")
    for check in (files_check(original), digests_check(original)):
        if check.result is CheckResult.FAILED:
            raise _refused(bundle, "is not as attested", f"run: tracline verify {bundle}")
    return original


def _refused(bundle: Path, what: str, hint: str) -> SourceError:
    return SourceError("TRL462", str(bundle), what, hint)
