"""The attribute names that dialects read, as the table that the walk looks them up in.

A name has a *slot* where the walk alone can read it. All other names of the dialects make their span odd.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..dialects.names import (
    frameworks,
    langfuse_3,
    mastra_1,
    mlflow_3,
    openinference_0_1,
    openllmetry_0_4,
    opentelemetry_1_36,
    opentelemetry_1_41,
    vercel_ai_6,
)
from ..dialects.session_key import SESSION_KEYS
from ..dialects.span_facts import AGENTS, END, NESTED
from .flat_loops import LISTS, SLOT_FLAT
from .name_loops import NAMES_MAX, SLOT_IGNORED, hash_of
from .wire_loops import SLOT_ESCAPED, SLOT_EVENT, SLOT_EVENT_ODD, SLOT_ODD, SLOT_RAISED, SLOT_SPAN

_MODULES = (
    frameworks,
    langfuse_3,
    mastra_1,
    mlflow_3,
    openinference_0_1,
    openllmetry_0_4,
    opentelemetry_1_36,
    opentelemetry_1_41,
    vercel_ai_6,
)
_oi, _otel, _tl = openinference_0_1, opentelemetry_1_41, openllmetry_0_4

_SINGLE = (
    _otel.INPUT_MESSAGES,
    _otel.OUTPUT_MESSAGES,
    _otel.TOOL_ARGUMENTS,
    _otel.TOOL_RESULT,
    _otel.TOOL_NAME,
    _otel.TOOL_CALL_ID,
    _otel.OPERATION,
    _otel.RESPONSE_MODEL,
    _otel.REQUEST_MODEL,
    _otel.RESPONSE_ID,
    _otel.FINISH_REASONS,
    _otel.OUTPUT_TOKENS,
    _otel.ERROR_TYPE,
    NESTED,
    END,
    _oi.KIND,
    _oi.RESPONSE_MODEL,
    _oi.MODEL,
    _oi.REQUEST_MODEL,
    _oi.INPUT_VALUE,
    _oi.INPUT_TYPE,
    _oi.OUTPUT_VALUE,
    _oi.OUTPUT_TYPE,
    _oi.TOOL_NAME,
    _oi.TOOL_CALL_ID,
    _oi.TOOL_ID,
    _oi.TOOL_PARAMETERS,
    _oi.GRAPH_NODE_NAME,
    _oi.GRAPH_NODE_ID,
    _tl.KIND,
    _tl.REQUEST_TYPE,
    _tl.ENTITY_NAME,
    _tl.ENTITY_INPUT,
    _tl.ENTITY_OUTPUT,
)
INPUT, OUTPUT, ARGUMENTS, RESULT, TOOL, CALL_ID, OPERATION, RESPONSE_MODEL, REQUEST_MODEL, RESPONSE_ID = (
    range(SLOT_SPAN, SLOT_SPAN + 10)
)
FINISH_REASONS, OUTPUT_TOKENS, ERROR_TYPE, IS_NESTED, IS_END = range(SLOT_SPAN + 10, SLOT_SPAN + 15)
OI_KIND, OI_RESPONSE_MODEL, OI_MODEL, OI_REQUEST_MODEL = range(SLOT_SPAN + 15, SLOT_SPAN + 19)
INPUT_VALUE, INPUT_TYPE, OUTPUT_VALUE, OUTPUT_TYPE = range(SLOT_SPAN + 19, SLOT_SPAN + 23)
OI_TOOL, OI_CALL_ID, OI_TOOL_ID, OI_PARAMETERS = range(SLOT_SPAN + 23, SLOT_SPAN + 27)
OI_NODE, OI_NODE_ID = range(SLOT_SPAN + 27, SLOT_SPAN + 29)
TL_KIND, TL_REQUEST, TL_ENTITY, TL_INPUT, TL_OUTPUT = range(SLOT_SPAN + 29, SLOT_SPAN + 34)
"""The slots of single attributes, in the order of `_SINGLE`."""
OI_MESSAGES, OI_ANSWERS, TL_MESSAGES, TL_ANSWERS = range(SLOT_FLAT, SLOT_SPAN)
"""The slots of flattened lists, in the order of `LISTS`."""
AGENT = SLOT_SPAN + len(_SINGLE)
"""The slot of the first attribute that names an agent; the others follow in order of preference."""
SESSION = AGENT + len(AGENTS)
"""The slot of the first session key; the others follow in order of preference."""
SESSION_NAMES = tuple(name for name in SESSION_KEYS if name != mlflow_3.SESSION)
"""The session keys with slots; MLflow's is JSON."""

FLATTENED = (
    openinference_0_1.INPUT_MESSAGES,
    openinference_0_1.OUTPUT_MESSAGES,
    openinference_0_1.PROMPTS,
    openinference_0_1.CHOICES,
    openllmetry_0_4.OLD_COMPLETION,
    openllmetry_0_4.PROMPT,
    openllmetry_0_4.COMPLETION,
)
"""The beginnings of the names of flattened lists."""
NOT_READ = frozenset(
    {
        _otel.PROVIDER,
        _otel.INSTRUCTIONS,
        _otel.TOOL_DEFINITIONS,
        _otel.RETRIEVAL_QUERY,
        _otel.RETRIEVAL_DOCUMENTS,
        _otel.EVALUATION_EXPLANATION,
        _otel.EXCEPTION_MESSAGE,
        _otel.EXCEPTION_STACKTRACE,
        _otel.SERVICE_NAME,
        opentelemetry_1_36.SYSTEM,
        langfuse_3.STATUS_MESSAGE,
        langfuse_3.TRACE_INPUT,
        langfuse_3.TRACE_OUTPUT,
    }
)
"""Attributes with names that no dialect looks up on a span."""


def slots_of() -> dict[str, int]:
    """Return the slots by name: of span attributes, of events and of attributes of exceptions."""
    slots = dict.fromkeys(_names(_MODULES), SLOT_ODD)
    slots.update(dict.fromkeys(NOT_READ, SLOT_IGNORED))
    slots.update(zip(_SINGLE, range(SLOT_SPAN, AGENT), strict=True))
    slots.update(zip(AGENTS, range(AGENT, SESSION), strict=True))
    slots.update({name: SESSION + place for place, name in enumerate(SESSION_NAMES)})
    slots.update(
        {
            _otel.EXCEPTION_EVENT: SLOT_EVENT,
            _otel.EXCEPTION_TYPE: SLOT_RAISED,
            "exception.escaped": SLOT_ESCAPED,
            **dict.fromkeys(opentelemetry_1_36.MESSAGE_EVENTS, SLOT_EVENT_ODD),
            opentelemetry_1_36.CHOICE_EVENT: SLOT_EVENT_ODD,
            opentelemetry_1_36.PROMPT_EVENT: SLOT_EVENT_ODD,
            opentelemetry_1_36.COMPLETION_EVENT: SLOT_EVENT_ODD,
            _otel.DETAILS_EVENT: SLOT_EVENT_ODD,
        }
    )
    return slots


def name_table() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the names for `walk`: entries of slot, length and first word, and the words of all names.

    The first entries are a hash table, with slot -1 where there is no name; `FLATTENED` follows.
    """
    slots = slots_of()
    entries = np.full((NAMES_MAX + len(FLATTENED), 3), -1, np.int64)
    words = 0
    texts: list[bytes] = []
    begins = {
        **dict.fromkeys(FLATTENED, SLOT_ODD),
        **dict(zip(LISTS, range(SLOT_FLAT, SLOT_SPAN), strict=True)),
    }
    for number, (name, slot) in enumerate([*slots.items(), *begins.items()]):
        data = name.encode()
        text = np.frombuffer(data, np.uint8)
        place = int(hash_of(text, np.frombuffer(data, np.uint64, len(data) // 8), 0, len(data))) % NAMES_MAX
        while number < len(slots) and entries[place, 0] >= 0:
            place = (place + 1) % NAMES_MAX
        entries[place if number < len(slots) else NAMES_MAX + number - len(slots)] = slot, len(data), words
        texts.append(data.ljust((len(data) + 7) // 8 * 8, b"\0"))
        words += (len(data) + 7) // 8
    return entries, np.frombuffer(b"".join(texts), np.uint64)


def _names(modules: Iterable[ModuleType]) -> Iterator[str]:
    """Yield all texts among the constants of modules."""
    for module in modules:
        for constant, value in vars(module).items():
            if constant[:1] != "_":
                yield from _texts(value)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*cast("Mapping[object, object]", value).values()])
    elif isinstance(value, (tuple, list, frozenset)):
        for item in cast("Iterable[object]", value):
            yield from _texts(item)
