"""The claims of held candidates that may become events, and their order."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ..candidate import Candidate, Claim
from ..event import Kind, content_of, event_body
from .coverage import half_key

KINDS = {kind: place for place, kind in enumerate(Kind)}
"""The order of kinds at one place."""
NO_PLACE = 1 << 32
"""The place in `ClaimPlace` of a claim without one: behind all places in conversations."""
_END, _USER, _ASSISTANT = Kind.END, Kind.USER, Kind.ASSISTANT
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
_EMPTY = hashlib.blake2b(digest_size=8)
"""A copy of it takes half the time of a new one."""

ClaimItem: TypeAlias = tuple[Claim, str, Candidate]
"""A claim with the key of its span and its candidate."""
ClaimPlace: TypeAlias = tuple[int, int, int, int]
"""The sort key of a claim: time, place in the conversation, kind, place in the message."""
PlacedClaim: TypeAlias = tuple[ClaimPlace, ClaimItem]


def claim_items(ready: Mapping[str, Candidate], covered: set[str]) -> list[ClaimItem]:
    """Return the claims of the candidates, without histories and without those that other spans make."""
    items: list[ClaimItem] = []
    for key, candidate in ready.items():
        if not covered and not candidate.covered:
            items += [(claim, key, candidate) for claim in candidate.claims]
            continue
        is_covered = _is_covered(candidate, covered)
        halves = () if is_covered else _covered_halves(candidate, covered)
        for claim in candidate.claims:
            if claim.kind is _END or not (is_covered or claim.time in halves):
                items.append((claim, key, candidate))
    return items


def _is_covered(candidate: Candidate, covered: set[str]) -> bool:
    """Return whether other spans make all claims of a span."""
    return candidate.covered or (bool(covered) and candidate.key in covered)


def _covered_halves(candidate: Candidate, covered: set[str]) -> list[int]:
    """Return the times of the halves of a conversation that other spans claim."""
    if not covered:
        return []
    key = candidate.key
    return [time for half, time in candidate.halves if half_key(key, half) in covered]


def has_history(candidate: Candidate, covered: set[str]) -> bool:
    """Return whether a candidate has a history that no other span claims."""
    if candidate.history is None or _is_covered(candidate, covered):
        return False
    return candidate.start not in _covered_halves(candidate, covered)


def claim_times(candidate: Candidate) -> Iterator[int]:
    """Yield the times of a candidate's claims; those of its history have one."""
    if candidate.history is not None:
        yield candidate.start
    for claim in candidate.claims:
        yield claim.time


def in_order(
    items: Sequence[ClaimItem],
    histories: Sequence[tuple[str, Candidate]],
    is_dropped: Callable[[str, Candidate], bool],
) -> Iterator[PlacedClaim]:
    """Yield the claims in judged order; their content is compared only where all else is equal.

    The claims of a history come with them unless all of it `is_dropped`. That is asked when everything before
    it has been taken: its claims have one time, and of that time only claims with a place in a conversation
    come before its last one.
    """
    items, found = [*items], [place_of(claim) for claim, _, _ in items]
    order = sorted(range(len(items)), key=found.__getitem__)
    waiting = sorted(((_begin(each), key, each) for key, each in histories), reverse=True)
    at, count = 0, len(order)
    while at < count or waiting:
        place = found[order[at]] if at < count else None
        if waiting and (place is None or waiting[-1][0] <= place):
            _, key, candidate = waiting.pop()
            if not is_dropped(key, candidate):
                first = len(items)
                items += [(claim, key, candidate) for claim in candidate.past_claims]
                found += [place_of(claim) for claim, _, _ in items[first:]]
                # These have one time: what is later stays in its order.
                stop = bisect_right(order, candidate.start, at, key=lambda number: found[number][0])
                together = [*order[at:stop], *range(first, len(items))]
                order[at:stop] = sorted(together, key=found.__getitem__)
                count = len(order)
            continue
        assert place is not None
        begin, at = at, at + 1
        while at < count and found[order[at]] == place:
            at += 1
        if at == begin + 1:
            yield place, items[order[begin]]
        else:
            for item in sorted([items[number] for number in order[begin:at]], key=_tie):
                yield place, item


def _begin(candidate: Candidate) -> ClaimPlace:
    """Return the sort key of the first claim of a candidate's history."""
    assert candidate.history is not None
    return candidate.start, *place_of(candidate.history.claims[0])[1:]


def place_of(claim: Claim) -> ClaimPlace:
    """Return the sort key of a claim."""
    place = claim.place
    return claim.time, NO_PLACE if place is None else place, KINDS[claim.kind], claim.rank


def _tie(item: ClaimItem) -> tuple[str, int, int, str]:
    claim, key, candidate = item
    return body_digest(claim_body(claim)), candidate.start, candidate.end, key


def claim_body(claim: Claim) -> bytes:
    """Return the `event_body` of a claim's event."""
    kind = claim.kind
    if kind is _USER or kind is _ASSISTANT:
        return event_body(kind, [claim.text])
    return event_body(kind, content_of(claim))


def body_digest(body: bytes) -> str:
    """Return a digest of an event's kind and content, by which equal events are counted."""
    digest = _EMPTY.copy()
    digest.update(body)
    return digest.hexdigest()
