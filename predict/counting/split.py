"""The split of sessions into those that a chain learns from, in folds, and those held out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct

from ..chain.contexts import FOLDS

_BITS = 64
_HALVES = Struct(">QQ")


@dataclass(frozen=True, slots=True)
class Split:
    """A split by a keyed hash of the session id: it depends on nothing else, so parts of an archive agree.

    About the share `hold_out` of the sessions is held out.
    """

    hold_out: float = 0.3
    seed: int = 0

    def of(self, session_id: str) -> int:
        """Return the fold of a session, or -1 where it is held out."""
        return self.folds([session_id])[0]

    def folds(self, session_ids: Iterable[str]) -> list[int]:
        """Return the fold of each session, or -1 where it is held out."""
        # A copy of a keyed hash is cheaper than another one with the key.
        keyed = blake2b(digest_size=16, key=self.seed.to_bytes(16, "big", signed=True))
        limit = self.hold_out * 2**_BITS
        found: list[int] = []
        for session_id in session_ids:
            hashed = keyed.copy()
            hashed.update(session_id.encode("utf-8", "surrogatepass"))
            choice, fold = _HALVES.unpack(hashed.digest())
            found.append(-1 if choice < limit else fold % FOLDS)
        return found
