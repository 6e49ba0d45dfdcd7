"""Chains of bundles: each statement names the attestation before it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...archive.error import SourceError
from .envelope import ATTESTATION, EnvelopeError, decode_envelope
from .signers import Signer

_HINT = "name the folder of the bundle that was made before"


@dataclass(frozen=True, slots=True)
class PreviousBundle:
    """The bundle before in a chain: the digest of its attestation, its time, and the keys that signed it."""

    sha256: str
    as_of: str | None
    keys: frozenset[str]


def read_previous(folder: Path) -> PreviousBundle:
    """Return the bundle before in a chain. Raises SourceError (TRL458) if it has no readable attestation."""
    try:
        content = (folder / ATTESTATION).read_bytes()
        envelope = decode_envelope(content)
        as_of = envelope.statement["predicate"]["parameters"]["as_of"]
    except (OSError, EnvelopeError, LookupError, TypeError) as error:
        what = f"cannot be the previous bundle: {type(error).__name__} in its attestation"
        raise SourceError("TRL458", str(folder), what, _HINT) from error
    keys = frozenset(key_id for key_id, _ in envelope.signatures)
    return PreviousBundle(hashlib.sha256(content).hexdigest(), as_of, keys)


def check_handover(previous: PreviousBundle | None, signers: Sequence[Signer]) -> None:
    """Check that a key of the previous bundle signs this one, too, where the key changes.

    Raises SourceError (TRL458).
    """
    keys = {signer.public.id for signer in signers}
    if previous is not None and keys and previous.keys and not keys & previous.keys:
        what = "the previous bundle is signed by another key"
        hint = "sign the first bundle of a new key with both: --key OLD --key NEW"
        raise SourceError("TRL458", "--key", what, hint)
