"""The claims of a plain session that the watermark has passed, in judged order.

A session is plain while nothing of it can depend on more than the order of its claims: no other span makes a
claim of its spans, nothing waits but spans that end later, no occurrence ends, and no two claims have one
place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from operator import itemgetter, lt
from typing import NamedTuple, TypeAlias

from ..candidate import Candidate, Claim
from ..event import Content, Kind
from ..sessions.assemble import SessionAssembler
from ..sessions.claim_order import KINDS, NO_PLACE, ClaimPlace
from ..sessions.memory.seen import OF_AGENTS
from ..span_content import SpanRole
from ..time import NS_MAX, NS_MIN

_CHAT, _TOOL, _CAPTURED = SpanRole.CHAT, SpanRole.TOOL, Content.CAPTURED
_END, _RESULT = Kind.END, Kind.TOOL_RESULT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""

PlainClaim: TypeAlias = tuple[ClaimPlace, Claim, str, Candidate]
"""A claim at its place, with the key of its span and its candidate."""
_place_of = itemgetter(0)


class ReadyClaims(NamedTuple):
    """The spans that the watermark has passed, by their keys, and their claims in judged order."""

    spans: dict[str, Candidate]
    claims: list[PlainClaim]


def ready_claims(session: SessionAssembler, watermark: int) -> ReadyClaims | None:
    """Return the claims that the watermark has passed; None where the session is not plain.

    Histories are left out: session assembly drops all of theirs.
    """
    seen = session.seen
    if session.taken or session.awaited or len(seen) > 1 or seen[0].covers_calls:
        return None
    ready: dict[str, Candidate] = {}
    waiting: list[Candidate] = []
    for key, candidate in session.held.candidates.items():
        role = candidate.role
        if candidate.covered or (role is not _CHAT and role is not _TOOL):
            return None
        for outer in candidate.within:
            if not outer.startswith(OF_AGENTS):
                return None
        if candidate.end > watermark:
            waiting.append(candidate)
        else:
            ready[key] = candidate
    claims = _plain_claims(ready) if ready else []
    if claims is None:
        return None
    histories = [(key, candidate) for key, candidate in ready.items() if candidate.history is not None]
    if not claims:
        return None if histories else ReadyClaims(ready, claims)
    is_plain = _are_ordered(claims) and _are_together(session, claims, histories, waiting)
    return ReadyClaims(ready, claims) if is_plain else None


def _plain_claims(ready: Mapping[str, Candidate]) -> list[PlainClaim] | None:
    """Return the claims of spans; None where one of them is no captured message, call or result."""
    claims: list[PlainClaim] = []
    add, kinds = claims.append, KINDS
    for key, candidate in ready.items():
        for claim in candidate.claims:
            kind, place = claim.kind, claim.place
            if claim.past or claim.content is not _CAPTURED or kind is _END:
                return None
            if kind is _RESULT and claim.result is None:
                # A model's call may have it.
                return None
            at = claim.time, NO_PLACE if place is None else place, kinds[kind], claim.rank
            add((at, claim, key, candidate))
    return claims


def _are_ordered(claims: list[PlainClaim]) -> bool:
    """Sort the claims by their places, and return whether all places differ."""
    places = list(map(_place_of, claims))
    if all(map(lt, places, islice(places, 1, None))):
        return True
    claims.sort(key=_place_of)
    places.sort()
    return all(map(lt, places, islice(places, 1, None)))


def _are_together(
    session: SessionAssembler,
    claims: Sequence[PlainClaim],
    histories: Sequence[tuple[str, Candidate]],
    waiting: Sequence[Candidate],
) -> bool:
    """Return whether all claims are taken now, into the open occurrence, and all histories dropped."""
    now, (first, claim, begun, _) = session.open, claims[0]
    last_time, caller = (first[0], begun) if now is None else (now.last_time, now.caller)
    until = _until(waiting, NS_MIN if now is None else last_time)
    latest = claims[-1][0][0]
    if latest >= until or latest > last_time + session.idle:
        return False
    if not histories:
        return True
    if caller is None or (now is None and (claim.place is None or session.seen[0].size)):
        return False
    for key, candidate in histories:
        start = candidate.start
        if key == caller or start >= until or start > last_time + session.idle:
            return False
        if now is None and start <= first[0]:
            return False
    return True


def _until(waiting: Sequence[Candidate], since: int) -> int:
    """Return the time of the first claim of the waiting spans; those before `since` do not count."""
    until = NS_MAX
    for candidate in waiting:
        if candidate.history is not None and since <= candidate.start < until:
            until = candidate.start
        for claim in candidate.claims:
            if since <= claim.time < until:
                until = claim.time
    return until
