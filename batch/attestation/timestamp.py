"""Timestamps of signatures by an authority, as RFC 3161 has them.

The package `rfc3161-client` is an extra of tracline, so it is imported when it is used.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.x509 import Certificate, load_pem_x509_certificates

from ...archive.error import SourceError
from .envelope import Envelope

if TYPE_CHECKING:
    from rfc3161_client import TimeStampResponse

SECONDS_MAX = 30.0
"""Seconds that an authority has for its answer."""
BYTES_MAX = 1 << 20
"""Bytes of an answer."""
_VERSIONS = [3, 1]
"""The versions of RFC 5652 for a timestamp, and for a signer named by issuer: no signature covers them."""
INSTALL_HINT = "install tracline with its extra `timestamp`: pip install '.[timestamp]' in a clone"


class TimestampError(ValueError):
    """A timestamp that does not hold; the text names the fault."""


def stamped_bytes(envelope: Envelope) -> bytes:
    """Return what a timestamp covers: the bytes of the signatures, in their order."""
    return b"".join(signature for _, signature in envelope.signatures)


@dataclass(frozen=True, slots=True)
class TimestampAuthority:
    """An authority that stamps over HTTP."""

    url: str

    def stamp(self, content: bytes) -> bytes:
        """Return the authority's response. Raises SourceError (TRL459) unless it stamps this content."""
        try:
            from rfc3161_client import HashAlgorithm, TimestampRequestBuilder
        except ModuleNotFoundError as error:
            raise self._failed("needs the package rfc3161-client", INSTALL_HINT) from error
        builder = TimestampRequestBuilder().data(content).hash_algorithm(HashAlgorithm.SHA256)
        request = builder.build()
        answer = self._answer(request.as_bytes())
        try:
            response = _decoded(answer, content)
        except TimestampError as error:
            raise self._failed(f"answers without a timestamp: {error}", "use another authority") from error
        if response.tst_info.nonce != request.nonce:
            raise self._failed("answers another request", "use another authority")
        return answer

    def _answer(self, request: bytes) -> bytes:
        if not self.url.startswith(("http://", "https://")):
            raise self._failed("is no address of an authority", "use one that begins with https://")
        query = urllib.request.Request(
            self.url, request, {"Content-Type": "application/timestamp-query"}, method="POST"
        )
        try:
            with urllib.request.urlopen(query, timeout=SECONDS_MAX) as response:
                return response.read(BYTES_MAX)
        except (OSError, ValueError, HTTPException) as error:
            hint = "check the address, or audit without --timestamp"
            raise self._failed(f"does not answer: {type(error).__name__}", hint) from error

    def _failed(self, what: str, hint: str) -> SourceError:
        return SourceError("TRL459", self.url, what, hint)


def _decoded(answer: bytes, content: bytes) -> TimeStampResponse:
    """Return the response in an answer. Raises TimestampError unless it grants a stamp of the content."""
    from rfc3161_client import decode_timestamp_response
    from rfc3161_client.tsp import PKIStatus

    try:
        response = decode_timestamp_response(answer)
        status, stamped = response.status, response.tst_info.message_imprint.message
        signed = response.signed_data
        versions = [signed.version, *(signer.version for signer in signed.signer_infos)]
    except (ValueError, TypeError) as error:
        raise TimestampError("it is no response of RFC 3161") from error
    if status != PKIStatus.GRANTED:
        raise TimestampError("the authority granted none")
    if stamped != sha256(content).digest():
        raise TimestampError("it is a stamp of other content")
    if response.as_bytes() != answer or versions != _VERSIONS:
        raise TimestampError("it is not in canonical form")
    return response


def read_certificates(path: Path) -> list[Certificate]:
    """Return the certificates in a PEM file. Raises SourceError (TRL459) if there is none."""
    try:
        return load_pem_x509_certificates(path.read_bytes())
    except ValueError as error:
        hint = "give the authority's certificates in PEM"
        raise SourceError("TRL459", str(path), "has no certificate", hint) from error


def stamped_at(answer: bytes, content: bytes, trusted: Sequence[Certificate] | None) -> datetime:
    """Return the time of a timestamp of the content, which a trusted authority signed.

    Without `trusted` no signature is checked. Raises TimestampError.
    """
    from rfc3161_client import VerificationError, VerifierBuilder

    response = _decoded(answer, content)
    if trusted is not None:
        verifier = VerifierBuilder(roots=[*trusted]).build()
        try:
            verifier.verify_message(response, content)
        except (VerificationError, ValueError) as error:
            raise TimestampError("no given authority signed it") from error
    return response.tst_info.gen_time.astimezone(UTC)
