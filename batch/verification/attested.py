"""The checks of a bundle against its attestation: files, digests, format, signatures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ...archive.error import SourceError
from ...rules.model.problem import counted
from ..attestation.envelope import ATTESTATION, Envelope, EnvelopeError, decode_envelope
from ..attestation.keys import TrustedKey
from ..attestation.statement import PREDICATE_TYPE, STATEMENT_TYPE, UNATTESTED
from ..evidence.bundle import TYPED_VERDICTS, VERDICTS, is_typed_alike
from ..evidence.canonical_json import canonical_line, canonical_line_of_integers
from ..evidence.files import bundle_files, file_digest, is_regular
from .checks import BundleCheck, failed, passed

MISSING = "tracline audit writes one; bundles of early releases have none"


@dataclass(frozen=True, slots=True)
class AttestedBundle:
    """A bundle with the envelope of its attestation, the attested digests by name, and the predicate."""

    folder: Path
    envelope: Envelope
    subjects: Mapping[str, str]
    predicate: Mapping[str, Any]

    @property
    def chains(self) -> tuple[str, ...]:
        """Return the digests of the chains that the audit followed; early releases had none."""
        return tuple(self.predicate.get("chains", ()))

    @property
    def is_redacted(self) -> bool:
        """Return whether ids and texts of the bundle are replaced."""
        return self.predicate["redaction"] is not None


def read_attested(folder: Path) -> AttestedBundle:
    """Return a bundle with its attestation.

    Raises SourceError: TRL453 without an attestation, TRL454 if it is damaged, TRL455 for an unknown version.
    """
    path = folder / ATTESTATION
    if not path.is_file():
        raise SourceError("TRL453", str(folder), f"has no {ATTESTATION}", MISSING)
    try:
        envelope = decode_envelope(path.read_bytes())
        content = envelope.statement
        if content["_type"] != STATEMENT_TYPE or content["predicateType"] != PREDICATE_TYPE:
            hint = f"this version of tracline verifies {PREDICATE_TYPE} in an in-toto Statement v1"
            raise SourceError("TRL455", str(path), "is an attestation of an unknown version", hint)
        names = [each["name"] for each in content["subject"]]
        subjects = {each["name"]: each["digest"]["sha256"] for each in content["subject"]}
        if names != sorted(set(names)):
            raise EnvelopeError("the subjects are not sorted, each once")
        bundle = AttestedBundle(folder, envelope, subjects, content["predicate"])
        _ = bundle.is_redacted
    except (EnvelopeError, LookupError, TypeError) as error:
        reason = str(error) if isinstance(error, EnvelopeError) else "members are missing"
        hint = "use the bundle as its author published it"
        raise SourceError("TRL454", str(path), f"is damaged: {reason}", hint) from None
    return bundle


def files_check(bundle: AttestedBundle) -> BundleCheck:
    """Compare the names of the files: the folder has the subjects and nothing else."""
    present = set(bundle_files(bundle.folder)) - UNATTESTED
    attested = set(bundle.subjects)
    odd = {name for name in bundle_files(bundle.folder) if not is_regular(bundle.folder / name)}
    if missing := attested - present:
        what = f"{counted(len(missing), 'attested file')} missing"
        return failed("files", "TRL456", what, missing)
    if added := present - attested:
        what = f"{counted(len(added), 'file')} not attested"
        return failed("files", "TRL456", what, added)
    if odd:
        what = f"not a regular file: {counted(len(odd), 'link or special file')}"
        return failed("files", "TRL456", what, odd)
    return passed("files", f"the folder has {counted(len(attested), 'attested file')} and no other")


def digests_check(bundle: AttestedBundle) -> BundleCheck:
    """Compare the contents of the files that are there."""
    present = [name for name in bundle.subjects if is_regular(bundle.folder / name)]
    changed = [name for name in present if file_digest(bundle.folder / name) != bundle.subjects[name]]
    if changed:
        what = f"{counted(len(changed), 'file')} changed since the attestation"
        return failed("digests", "TRL456", what, changed)
    return passed("digests", f"{counted(len(present), 'file')} unchanged since the attestation")


def format_check(bundle: AttestedBundle) -> BundleCheck:
    """Check that JSON is canonical, and that the typed verdicts are those of the lines."""
    documents = [name for name in bundle.subjects if name.endswith((".json", ".jsonl"))]
    # Opening a pipe would block.
    names = [name for name in documents if is_regular(bundle.folder / name)]
    changed = [name for name in names if not _is_canonical(bundle.folder / name)]
    if changed:
        return failed("format", "TRL454", "JSON is not in canonical form", changed)
    if not is_typed_alike(bundle.folder / TYPED_VERDICTS, bundle.folder / VERDICTS):
        return failed("format", "TRL454", f"the rows differ from {VERDICTS}", [TYPED_VERDICTS])
    what = f"canonical JSON in {counted(len(names), 'file')}; {TYPED_VERDICTS} has the rows of {VERDICTS}"
    return passed("format", what)


def _is_canonical(path: Path) -> bool:
    """Return whether each line of a file is canonical JSON; a file of JSON has a single line."""
    with path.open("rb") as lines:
        count = 0
        for line in lines:
            count += 1
            # For most lines orjson writes the bytes of RFC 8785; the slow way decides on the others.
            if (
                canonical_line_of_integers(orjson.loads(line)) != line
                and canonical_line(json.loads(line)) != line
            ):
                return False
    return count == 1 or path.suffix == ".jsonl"


def signature_check(envelope: Envelope, keys: Sequence[TrustedKey]) -> BundleCheck:
    """Check that trusted keys have made all signatures of an envelope, and that there is a signature."""
    known = {key.id: key for key in keys}
    if not envelope.signatures:
        return failed("signature", "TRL457", "the attestation is not signed")
    for key_id, signature in envelope.signatures:
        if key_id not in known:
            return failed("signature", "TRL457", f"it is signed by another key: {key_id}")
        if not known[key_id].has_signed(envelope.signed, signature):
            return failed("signature", "TRL457", f"key {key_id} has not signed this statement")
    ids = ", ".join(key_id for key_id, _ in envelope.signatures)
    return passed("signature", f"signed by {ids}")
