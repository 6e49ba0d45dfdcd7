"""The check of a bundle's timestamp."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from cryptography.x509 import Certificate

from ..attestation.envelope import TIMESTAMP
from ..attestation.timestamp import TimestampError, stamped_at, stamped_bytes
from .attested import AttestedBundle
from .checks import BundleCheck, failed, not_checked, passed


def timestamp_check(bundle: AttestedBundle, trusted: Sequence[Certificate]) -> BundleCheck:
    """Check that the timestamp is one of the signatures, by an authority with one of the certificates."""
    path = bundle.folder / TIMESTAMP
    if not path.is_file():
        if trusted:
            return failed("timestamp", "TRL459", "there is none", [TIMESTAMP])
        return not_checked("timestamp", "there is none")
    if find_spec("rfc3161_client") is None:
        return not_checked("timestamp", "the package rfc3161-client is not installed")
    try:
        time = stamped_at(path.read_bytes(), stamped_bytes(bundle.envelope), trusted or None)
    except TimestampError as error:
        return failed("timestamp", "TRL459", str(error), [TIMESTAMP])
    stamp = f"the signatures existed at {time:%Y-%m-%dT%H:%M:%SZ}"
    if not trusted:
        return not_checked("timestamp", f"{stamp}, if its authority is one: --tsa CERTIFICATES")
    return passed("timestamp", stamp)
