"""Attesting: the last step of an audit, which states and signs what the bundle contains."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...predict.following.followed_chain import FollowedChain
from ...rules.engine.judge import CompiledRules
from ...schemas.time import rfc3339
from ..prepare.options import AuditOptions
from .chain import PreviousBundle, check_handover
from .envelope import ATTESTATION, TIMESTAMP, signed_envelope
from .signers import Signer
from .statement import audit_predicate, statement
from .timestamp import TimestampAuthority, stamped_bytes


@dataclass(frozen=True, slots=True)
class Attesting:
    """The signers of an audit's attestation, which is unsigned without any, and what it states of the audit.

    `previous` is the bundle before in a chain; `authority` stamps the signatures. The clock returns
    nanoseconds since the epoch.
    """

    signers: tuple[Signer, ...] = ()
    previous: PreviousBundle | None = None
    authority: TimestampAuthority | None = None
    clock: Callable[[], int] = time.time_ns

    def begin(self) -> int:
        """Return the time at which an audit begins. Raises SourceError (TRL458) if no key may sign it."""
        check_handover(self.previous, self.signers)
        return self.clock()


UNSIGNED = Attesting()


def attest(
    bundle: Path,
    rule_sets: Mapping[str, CompiledRules],
    options: AuditOptions,
    attesting: Attesting,
    started: int,
    verdicts: Mapping[str, int],
    *,
    as_judged: bool = False,
    chain: FollowedChain | None = None,
) -> None:
    """Write the attestation of an audit by rule sets, by digest, that has written all other files.

    `verdicts` has the numbers of its lines by verdict, and `chain` is the chain whose risks it followed.
    """
    made = {"started": rfc3339(started), "finished": rfc3339(attesting.clock())}
    previous = attesting.previous
    predicate = audit_predicate(
        bundle, rule_sets, options, made, previous, verdicts, as_judged=as_judged, chain=chain
    )
    envelope = signed_envelope(statement(bundle, predicate), attesting.signers)
    (bundle / ATTESTATION).write_bytes(envelope.encoded())
    if attesting.authority is not None and envelope.signatures:
        (bundle / TIMESTAMP).write_bytes(attesting.authority.stamp(stamped_bytes(envelope)))
