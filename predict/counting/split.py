"""The split of sessions into those that a chain learns from, in folds, and those held out."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from ..chain.contexts import FOLDS

_BITS = 64


@dataclass(frozen=True, slots=True)
class Split:
    """A split by a keyed hash of the session id: it depends on nothing else, so parts of an archive agree.

    About the share `hold_out` of the sessions is held out.
    """

    hold_out: float = 0.3
    seed: int = 0

    def of(self, session_id: str) -> int:
        """Return the fold of a session, or -1 where it is held out."""
        key = self.seed.to_bytes(16, "big", signed=True)
        digest = blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=16, key=key).digest()
        if int.from_bytes(digest[:8], "big") < self.hold_out * 2**_BITS:
            return -1
        return int.from_bytes(digest[8:], "big") % FOLDS
