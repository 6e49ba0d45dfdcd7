"""The secret of a redaction, and the keyed digests that replace values.

`s` is a key for a single value of a single field. Who knows it can check the value; it shows nothing of other
values, because each has a key of its own.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import rfc8785

from ...archive.error import SourceError

PREFIX = "r:"
"""The first characters of a replaced value; 32 hex digits follow."""
_DIGITS = 32
SECRET_BYTES_MIN = 16


@dataclass(frozen=True, slots=True)
class RedactionSecret:
    """The secret of a redaction."""

    secret: bytes

    @staticmethod
    def of(path: Path) -> RedactionSecret:
        """Return the content of a file as secret. Raises SourceError (TRL463) if it is too short."""
        secret = path.read_bytes()
        if len(secret) < SECRET_BYTES_MIN:
            hint = "make one with: openssl rand -out FILE 32"
            raise SourceError("TRL463", str(path), f"has less than {SECRET_BYTES_MIN} bytes", hint)
        return RedactionSecret(secret)

    def key(self, field: str, value: str, event_id: str | None = None) -> bytes:
        """Return the key `s` of a value; that of a text depends on its event, too."""
        content = [field, value] if event_id is None else [field, event_id, value]
        return hmac.digest(self.secret, rfc8785.dumps(content), sha256)

    def replacement(self, field: str, value: str, event_id: str | None = None) -> str:
        """Return what replaces a value."""
        return replacement(self.key(field, value, event_id), value)


def replacement(key: bytes, value: str) -> str:
    """Return what replaces a value with this key."""
    return PREFIX + hmac.digest(key, value.encode(), sha256).hex()[:_DIGITS]
