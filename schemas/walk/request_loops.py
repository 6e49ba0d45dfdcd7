"""The compiled loop over many requests in protobuf: one call for all of a poll."""

from __future__ import annotations

from typing import Any

from ..compiled import compiled
from . import keys
from .json_loops import judge_texts
from .wire_loops import TEXT, walk

SPANS, FACTS, FOUND_COLUMNS = range(3)
"""Columns of what was found in a request: the number of its spans, or why it has none, and of its facts."""
_INPUT, _OUTPUT, _ARGUMENTS = keys.INPUT, keys.OUTPUT, keys.ARGUMENTS
_VALUE, _ENTITY = keys.INPUT_VALUE, keys.TL_INPUT


@compiled
def walk_all(
    b: Any, words: Any, stops: Any, entries: Any, letters: Any, spans: Any, facts: Any, room: Any,
    memory: Any, found: Any,
) -> Any:  # fmt: skip
    """Walk requests one behind the other, each from a multiple of eight up to its stop; see `walk`.

    Return the numbers of all spans and of all facts. Offsets are those in the request of the row, and facts
    are numbered from the first one of their request. The `memory` of messages is empty.
    """
    n, count, begin = 0, 0, 0
    for i in range(len(stops)):
        stop = stops[i]
        data, by_eight, own_facts = b[begin:stop], words[begin // 8 : stop // 8], facts[count:]
        found[i, SPANS], found[i, FACTS] = walk(data, by_eight, entries, letters, spans[n:], own_facts, room)
        if found[i, SPANS] > 0:
            judge_texts(
                b, words, begin, stop, own_facts, found[i, FACTS],
                _INPUT, _OUTPUT, _ARGUMENTS, _VALUE, _ENTITY, TEXT, memory,
            )  # fmt: skip
            n += found[i, SPANS]
            count += found[i, FACTS]
        begin = (stop + 7) // 8 * 8
    return n, count
