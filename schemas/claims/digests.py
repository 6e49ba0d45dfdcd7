"""The keys of messages and the digests of claims, which stored states and archives name."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import orjson

from ..candidate import Claim

_DIGEST_BYTES = 16
_dumps = orjson.dumps
_EMPTY = hashlib.blake2b(digest_size=_DIGEST_BYTES)
"""A copy of it takes half the time of a new one."""
KeyedFields: TypeAlias = Sequence[list[str | None]]
"""Of each call of a message its id, tool and arguments in canonical form; of each result its id and text."""


def message_key(
    before: str, role: str, text: str | None, calls: KeyedFields = (), results: KeyedFields = ()
) -> str:
    """Return the digest of a message and all before it, of which `before` is the key."""
    digest = _EMPTY.copy()
    digest.update(_dumps([before, role, text, calls, results]))
    return digest.hexdigest()


def fields_of(claims: Sequence[Claim]) -> bytes:
    """Return the fields of claims that a digest is made of."""
    return _listed(claims)[1:-1]


def _listed(claims: Sequence[Claim]) -> bytes:
    return _dumps(
        [[c.kind, c.key, c.place, c.rank, c.tool, c.call_id, c.args, c.result, c.error] for c in claims]
    )


def digest_of(claims: Sequence[Claim]) -> str:
    """Return the digest of a list of claims, 32 hex digits."""
    digest = _EMPTY.copy()
    digest.update(_listed(claims))
    return digest.hexdigest()


class ClaimsDigest:
    """The digest of a list of claims that comes in parts, each as its `fields_of`."""

    __slots__ = ("_hash", "_is_empty")

    def __init__(self) -> None:
        self._hash = _EMPTY.copy()
        self._hash.update(b"[")
        self._is_empty = True

    def add(self, fields: bytes) -> None:
        """Add claims behind those that were added before."""
        if fields:
            self._hash.update(fields if self._is_empty else b"," + fields)
            self._is_empty = False

    def with_(self, fields: bytes) -> str:
        """Return the digest of the list with these claims at its end, 32 hex digits."""
        whole = self._hash.copy()
        whole.update(fields + b"]" if self._is_empty or not fields else b"," + fields + b"]")
        return whole.hexdigest()
