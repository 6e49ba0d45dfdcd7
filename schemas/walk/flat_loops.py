"""Compiled loops over the names of messages that were flattened into attributes.

`llm.input_messages.0.message.role` and `gen_ai.prompt.0.role` are the roles of the first messages of a list.
Of such a list the walk notes which messages there are, and which of them have a role that is known: these
are messages to every dialect, whatever else they have.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from ..dialects.names import openinference_0_1 as oi
from ..dialects.names import openllmetry_0_4 as tl
from ..dialects.parts.messages import ROLES
from ..span_content import Role
from .name_loops import begins_with, is_of, joined

SLOT_FLAT, FLAT_COUNT = 6, 4
"""The slot of the first list, and the number of lists, in the order of `LISTS`."""
LISTS = (oi.INPUT_MESSAGES, oi.OUTPUT_MESSAGES, tl.PROMPT, tl.COMPLETION)
"""Inputs and outputs of the conventions in turn; messages of the first two are below `message`."""
FLAT = 20
"""The kind of the fact of a list: its offset has a bit for each message, its length one for each role."""
_SIZES = np.array([len(name) for name in LISTS])
_WRAPPED = 2
PLACES_MAX = 60
"""Messages of a list, one bit each."""
_ROLE, _PART, _ODD = 1, 0, -1

_ROLES = joined(ROLES)
_ANSWERING = joined(name for name, role in ROLES.items() if role is Role.ASSISTANT)
_PARTS = joined(["content", "name", "tool_call_id", "finish_reason"])
_LISTS_WITHIN = joined(["contents.", "tool_calls."])
_WRAPPER, _ROLE_NAME = joined(["message."]), joined(["role"])


@compiled
def _part_of(b: Any, at: Any, stop: Any, which: Any) -> Any:
    """Return the place of a message, and the kind of its part, of what follows the name of its list."""
    place, first = 0, at + 1
    if at == stop or b[at] != 46:
        return place, _ODD
    at = first
    while at < stop and at < first + 2 and 48 <= b[at] <= 57:
        place = 10 * place + np.int64(b[at]) - 48
        at += 1
    is_place = at > first and (at == first + 1 or b[first] != 48) and place < PLACES_MAX
    if not is_place or at == stop or b[at] != 46:
        return place, _ODD
    at += 1
    if which < _WRAPPED:
        if not begins_with(b, at, stop - at, _WRAPPER):
            return place, _ODD
        at += len(_WRAPPER) - 1
    if is_of(b, at, stop - at, _ROLE_NAME):
        return place, _ROLE
    is_part = is_of(b, at, stop - at, _PARTS) or begins_with(b, at, stop - at, _LISTS_WITHIN)
    return place, _PART if is_part else _ODD


@compiled
def note_flat(
    b: Any, key: Any, key_stop: Any, is_text: Any, value: Any, size: Any, slot: Any,
    facts: Any, first: Any, count: Any,
) -> Any:  # fmt: skip
    """Note a part of a message in the fact of its list, the last of a span's facts if it is new.

    Return how many facts there are, or -1 where only the dialects can read the list.
    """
    which = slot - SLOT_FLAT
    place, part = _part_of(b, key + _SIZES[which], key_stop, which)
    if part == _ROLE:
        names_it = is_text and _is_role(b, value, value + size, which)
        part = _ROLE if names_it else _ODD
    if part == _ODD:
        return -1
    at = first
    while at < count and facts[at, 0] != slot:
        at += 1
    if at == count:
        facts[at, 0], facts[at, 1], facts[at, 2], facts[at, 3] = slot, FLAT, 0, 0
    facts[at, 2] |= np.int64(1) << np.int64(place)
    if part == _ROLE:
        facts[at, 3] |= np.int64(1) << np.int64(place)
    return max(count, at + 1)


@compiled
def _is_role(b: Any, at: Any, stop: Any, which: Any) -> Any:
    """Return whether a text is a role that is known, and of an answer a model's."""
    if which % 2 == 1:
        return is_of(b, at, stop - at, _ANSWERING)
    return is_of(b, at, stop - at, _ROLES)
