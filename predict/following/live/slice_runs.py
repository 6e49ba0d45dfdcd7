"""The runs of a slice, or of a class of slices, as a session's state has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ....rules.incremental.carried_slices import CarriedSlices, SteppedSlice, slice_name, slice_value
from .followed_session import NO_SYMBOL, FollowedSession


class StoredRun(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The run of a rule in a slice: the name of its row, its last symbol, None without one, and its flags."""

    row: str
    symbol: str | None
    flags: int


StoredRuns = tuple[StoredRun | None, ...]
"""The runs of the rules with one `for_each`, None for a rule of which the slice has not begun."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(StoredRuns)


def encoded_runs(runs: StoredRuns) -> bytes:
    """Return runs as bytes: those of a class of slices are equal."""
    return _ENCODER.encode(runs)


def decoded_runs(data: bytes) -> StoredRuns:
    """Return the runs in the bytes."""
    return _DECODER.decode(data)


def slices_of(state: FollowedSession, keys: Sequence[Sequence[int]]) -> CarriedSlices:
    """Return the slices of a state; `keys` has the places of the rules of each `for_each`.

    A state of version 1 has a run for each rule and slice.
    """
    if not state.slices:
        return state.sliced
    stepped: list[SteppedSlice] = []
    for key, places in enumerate(keys):
        of_rules = [state.slices.get(place, {}) for place in places]
        for value in dict.fromkeys(value for of_rule in of_rules for value in of_rule):
            found = [of_rule.get(value) for of_rule in of_rules]
            runs = tuple(
                None if each is None else StoredRun(each.row, _symbol(state, each.symbol), each.flags)
                for each in found
            )
            stepped.append(SteppedSlice(slice_name(key, value), None, key, encoded_runs(runs), ()))
    return CarriedSlices().after({}, stepped)


def runs_by_value(slices: CarriedSlices) -> Mapping[int, list[tuple[str, StoredRuns]]]:
    """Return by `for_each` the value and the runs of each slice, in the order of values."""
    runs = {number: decoded_runs(each.runs) for number, each in slices.classes.items()}
    found: dict[int, list[tuple[str, StoredRuns]]] = {}
    for name, each in sorted(slices.members(slices.classes)):
        of_key = found.setdefault(slices.classes[each.number].key, [])
        of_key.append((slice_value(name), runs[each.number]))
    return found


def values_of(slices: CarriedSlices, number: int) -> Iterator[str]:
    """Yield the values of the slices of a class."""
    return (slice_value(name) for name, _ in slices.members([number]))


def _symbol(state: FollowedSession, place: int) -> str | None:
    return None if place == NO_SYMBOL else state.symbols[place]
