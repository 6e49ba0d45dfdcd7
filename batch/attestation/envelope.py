"""DSSE envelopes: a statement in canonical JSON, and its signatures."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import rfc8785

from ..evidence.canonical_json import canonical_line
from .signers import Signer

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
ATTESTATION = "attestation.json"
TIMESTAMP = "timestamp.tsr"
"""An RFC 3161 timestamp over the bytes of the signatures."""


class EnvelopeError(ValueError):
    """An envelope that is not in canonical form; the text names the difference."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A statement with its signatures, each with the id of its key, sorted by it."""

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @property
    def statement(self) -> Any:
        """Return the statement."""
        return json.loads(self.payload)

    @property
    def signed(self) -> bytes:
        """Return what the signatures cover: DSSE's pre-authentication encoding."""
        return b"DSSEv1 %d %s %d %s" % (
            len(PAYLOAD_TYPE),
            PAYLOAD_TYPE.encode(),
            len(self.payload),
            self.payload,
        )

    def encoded(self) -> bytes:
        """Return the file of the envelope."""
        signatures = [{"keyid": key, "sig": b64encode(sig).decode()} for key, sig in self.signatures]
        payload = b64encode(self.payload).decode()
        return canonical_line({"payload": payload, "payloadType": PAYLOAD_TYPE, "signatures": signatures})


def signed_envelope(statement: Mapping[str, Any], signers: Iterable[Signer]) -> Envelope:
    """Return the envelope of a statement that the signers have signed."""
    unsigned = Envelope(rfc8785.dumps({**statement}), ())
    signatures = {signer.public.id: signer.sign(unsigned.signed) for signer in signers}
    return Envelope(unsigned.payload, tuple(sorted(signatures.items())))


class _Signature(msgspec.Struct, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _EnvelopeFile(msgspec.Struct, forbid_unknown_fields=True):
    payload: str
    payloadType: str
    signatures: Sequence[_Signature]


def decode_envelope(content: bytes) -> Envelope:
    """Return the envelope of a file. Raises EnvelopeError unless the file is the only one that encodes it.

    So every changed byte changes the payload or a signature, or is refused here.
    """
    try:
        file = msgspec.json.decode(content, type=_EnvelopeFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise EnvelopeError("it is not a DSSE envelope") from None
    if file.payloadType != PAYLOAD_TYPE:
        raise EnvelopeError("the payload is of an unknown type")
    signatures = tuple((each.keyid, _binary(each.sig)) for each in file.signatures)
    envelope = Envelope(_binary(file.payload), signatures)
    ids = [key for key, _ in signatures]
    if ids != sorted(set(ids)):
        raise EnvelopeError("the signatures are not sorted by key, each once")
    if envelope.encoded() != content:
        raise EnvelopeError("it is not in canonical form")
    try:
        canonical = rfc8785.dumps(envelope.statement)
    except (ValueError, RecursionError):
        raise EnvelopeError("the payload is not JSON that has a canonical form") from None
    if canonical != envelope.payload:
        raise EnvelopeError("the payload is not in canonical form")
    return envelope


def _binary(text: str) -> bytes:
    """Return the bytes that base64 encodes; the caller checks that the text is their only encoding."""
    try:
        return b64decode(text.encode(), validate=True)
    except (BadBase64, ValueError):
        raise EnvelopeError("a value is not base64") from None
