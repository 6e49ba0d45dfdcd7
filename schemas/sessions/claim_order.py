"""The claims of held candidates that may become events, and their order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import orjson

from ..candidate import Candidate, Claim
from ..event import Kind, content_of
from .coverage import half_key

_KINDS = {kind: place for place, kind in enumerate(Kind)}
_END = Kind.END
_NO_PLACE = 1 << 32

ClaimItem: TypeAlias = tuple[Claim, str, Candidate]
"""A claim with the key of its span and its candidate."""


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
    items: list[ClaimItem],
    histories: Sequence[tuple[str, Candidate]],
    is_dropped: Callable[[str, Candidate], bool],
) -> Iterator[ClaimItem]:
    """Yield the claims in judged order; their content is compared only where all else is equal.

    The claims of a history come with them unless all of it `is_dropped`. That is asked when everything before
    it has been taken: its claims have one time, and of that time only claims with a place in a conversation
    come before its last one.
    """
    if len(items) == 1 and not histories:
        yield from items
        return
    found = [*map(place_of, items)]
    order = sorted(range(len(items)), key=found.__getitem__)
    items, places = [items[at] for at in order], [found[at] for at in order]
    waiting = sorted(((_begin(each), key, each) for key, each in histories), reverse=True)
    at = 0
    while at < len(items) or waiting:
        place = places[at] if at < len(items) else None
        if waiting and (place is None or waiting[-1][0] <= place):
            _, key, candidate = waiting.pop()
            if not is_dropped(key, candidate):
                past = ((claim, key, candidate) for claim in candidate.past_claims)
                items[at:] = sorted((*items[at:], *past), key=place_of)
                places[at:] = map(place_of, items[at:])
            continue
        begin, at = at, at + 1
        while at < len(items) and places[at] == place:
            at += 1
        if at == begin + 1:
            yield items[begin]
        else:
            yield from sorted(items[begin:at], key=_tie)


def _begin(candidate: Candidate) -> tuple[int, int, int, int]:
    """Return the sort key of the first claim of a candidate's history."""
    assert candidate.history is not None
    return candidate.start, *place_of((candidate.history.claims[0], "", candidate))[1:]


def place_of(item: ClaimItem) -> tuple[int, int, int, int]:
    """Return the sort key of a claim: time, place in the conversation, kind, place in the message."""
    claim = item[0]
    place = _NO_PLACE if claim.place is None else claim.place
    return claim.time, place, _KINDS[claim.kind], claim.rank


def _tie(item: ClaimItem) -> tuple[str, int, int, str]:
    claim, key, candidate = item
    return content_digest(claim.kind, content_of(claim)), candidate.start, candidate.end, key


def content_digest(kind: Kind, content: list[str | None]) -> str:
    """Return a digest of an event's content, by which equal events are counted."""
    return hashlib.blake2b(orjson.dumps([kind, content]), digest_size=8).hexdigest()
