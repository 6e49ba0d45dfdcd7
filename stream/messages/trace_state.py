"""The stored form of a trace, and its documented codec.

A trace is one or more entries. The first is `schemas.sessions.trace.OpenTrace` in MessagePack, field by
field. Each further one is a list of changes (`trace.Change`), which `OpenTrace.replay` does to the trace of
the entries before it. Keys are field names, so a release that adds a field with a default reads old entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...schemas.sessions.pending import RememberedTrace
from ...schemas.sessions.trace import Change, Changes, EncodedChanges, OpenTrace

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(OpenTrace)
_CHANGES_DECODER = msgspec.msgpack.Decoder(list[Change])
DAMAGES = (msgspec.MsgspecError, UnicodeDecodeError, IndexError, TypeError)
"""The errors of `decode_trace` for entries that no release wrote."""


class EntrySizes(msgspec.Struct, frozen=True):
    """The bytes of a trace's entries, and about how many are of released spans (`OpenTrace.release`)."""

    bytes: int
    released: int


class TraceEntry(msgspec.Struct, frozen=True):
    """An entry to be stored, in place of the stored ones where it `is_whole`, else behind them."""

    is_whole: bool
    data: bytes
    sizes: EntrySizes


def encode_trace(opened: OpenTrace) -> bytes:
    """Return a trace as one entry."""
    return _ENCODER.encode(opened)


def next_entry(
    opened: RememberedTrace, changes: Changes | EncodedChanges | None, stored: EntrySizes | None
) -> TraceEntry:
    """Return the entry that brings a trace up to date: its changes behind what is stored, or all of it.

    A trace is written whole when as much of its entries is released as is left. So the written bytes grow no
    faster than those that come.
    """
    if stored is not None and changes is not None:
        data = changes.done if isinstance(changes, EncodedChanges) else _ENCODER.encode(changes.done)
        grown = EntrySizes(stored.bytes + len(data), stored.released + changes.gone)
        if 2 * grown.released < grown.bytes:
            return TraceEntry(is_whole=False, data=data, sizes=grown)
    data = changes.whole if isinstance(changes, EncodedChanges) else _ENCODER.encode(opened.opened())
    return TraceEntry(is_whole=True, data=data, sizes=EntrySizes(len(data), 0))


def decode_trace(entries: Sequence[bytes]) -> tuple[OpenTrace, EntrySizes]:
    """Return a trace of its entries, and their sizes. Raises an error of `DAMAGES`."""
    opened, released = _DECODER.decode(entries[0]), 0
    for entry in entries[1:]:
        released += sum(opened.replay(change) for change in _CHANGES_DECODER.decode(entry))
    return opened, EntrySizes(sum(map(len, entries)), released)
