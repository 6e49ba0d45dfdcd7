"""Plain spans: those whose claims depend on a few attributes of OpenTelemetry's conventions.

Compiled loops find the fields of all spans of a message (`field_loops.py`). A span with an event, an end
mark, an attribute of another convention, a lost attribute or anything else that the decoder would report is
not plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from ..chat.message import ATTRIBUTE_CHARS_MAX, ATTRIBUTES_MAX
from ..dialects import MARKS
from ..dialects.names import frameworks as fw
from ..dialects.names import langfuse_3 as lf
from ..dialects.names import opentelemetry_1_41 as otel
from ..dialects.names import scopes
from ..dialects.names import vercel_ai_6 as ai
from ..dialects.openinference import MESSAGES
from ..dialects.parts.message_parts import name_of
from ..dialects.parts.values import REDACTIONS
from ..dialects.span_facts import COLUMNS, END, UNNAMED_ERROR, is_plain, plain_attributes
from ..otlp.attributes import value_of_protobuf
from ..otlp.decoded import Unreadable
from ..otlp.single import resource_of, scope_of
from ..span import Value
from .field_loops import FIELD_COLUMNS, FIRST, REFUSED, SMALL, SPAN_COLUMNS, find_fields
from .usual_loops import (
    ASKED,
    ASKED_STOP,
    BEHIND_SLOTS,
    FIRST_SLOT,
    FIRST_VALUE,
    IGNORED,
    INPUT,
    LENGTH_BYTES,
    OUTPUT,
    PART_COLUMNS,
    REPLY,
    REPLY_STOP,
    SLOT_COLUMNS,
    SLOT_NAMES,
    USUAL,
    USUAL_MAX,
    USUAL_STOP,
    VALUE_COLUMNS,
    VARYING_MARK,
    part_spans,
)
from .varying import with_varying

CACHED_MAX = 8_192
"""The number of cached attributes and statuses: most of the small ones are on all spans of a process."""

MODELS = otel.MODEL_OPERATIONS - otel.OTHER_OPERATIONS
"""The operations of calls of models."""
SLOTS = frozenset(SLOT_NAMES)
"""The attributes that claims are made of."""
_KNOWN = SLOTS | COLUMNS | set(IGNORED)
"""Attributes without the messages, the calls and the results that older conventions have elsewhere."""
_ODD = MARKS | {fw.LANGSMITH_KIND, otel.SCOPE_NAME, lf.LEVEL, END, ai.PROMPT_MESSAGES}
"""Further attributes that change how a span is read."""
_ERROR, _INPUT, _OUTPUT = map(SLOT_NAMES.index, (otel.ERROR_TYPE, otel.INPUT_MESSAGES, otel.OUTPUT_MESSAGES))
_NOWHERE = REFUSED, REFUSED
_LIST, _VARYING = ord("["), bytes([VARYING_MARK])
_HIDDEN = frozenset(text.encode() for text in REDACTIONS)
_HIDDEN_MAX = max(map(len, _HIDDEN))
_ODD_SCOPES = scopes.ADK | scopes.TEXT_PARTS
assert [name for name in (*SLOT_NAMES, *IGNORED) if is_plain(name)] == [SLOT_NAMES[0]]


class PlainSpan(msgspec.Struct, gc=False):
    """A plain span: the texts of `SLOTS`, and its further attributes as rules may name them.

    `has_more` is whether it has further attributes with content, `failed` whether its status is an error.
    """

    texts: dict[str, str]
    attributes: dict[str, str]
    has_more: bool
    failed: bool


class CallSpan(msgspec.Struct, gc=False):
    """A plain span of a model's call with input and output, the latter perhaps none as the call failed.

    The last fields are their offsets in the bytes of all requests, and `error` is the type of the error.
    """

    attributes: dict[str, str]
    error: str | None
    asked: int
    asked_stop: int
    reply: int
    reply_stop: int


_Pair: TypeAlias = tuple[str, str | None, str | None, bool]
"""An attribute: its name, its text in `texts` and in `attributes`, and whether it is further content."""


def plain_span(request: bytes) -> PlainSpan | None:
    """Return the only span of a request; None where it is not plain, or where the request is another one."""
    return PlainSpans([request]).span(0)


class PlainSpans:
    """The plain spans of requests of one span each: their fields are found at once, and read one by one."""

    def __init__(self, requests: Sequence[bytes]) -> None:
        data, spans = b"".join(requests), np.empty((len(requests), SPAN_COLUMNS), np.int64)
        stops = np.array([*accumulate(map(len, requests))], np.int64)
        fields = np.empty((len(requests) * ATTRIBUTES_MAX, FIELD_COLUMNS), np.int64)
        written = np.frombuffer(data, np.uint8)
        self._fields = fields[: find_fields(written, stops, spans, fields, ATTRIBUTES_MAX)]
        parts = np.empty((len(requests), PART_COLUMNS), np.int64)
        slots = np.empty((len(self._fields), SLOT_COLUMNS), np.int64)
        usual = np.empty(len(requests) * USUAL_MAX, np.uint8)
        values = np.empty((len(self._fields), VALUE_COLUMNS), np.int64)
        count, valued, size = part_spans(written, spans, self._fields, parts, slots, values, usual)
        self.data, self._spans, self._usual = data, spans, usual[:size].tobytes()
        self._shared: dict[int, _Usual | None] = {}
        self._parts: list[list[int]] = parts.tolist()
        self._slots: list[list[int]] = slots[:count].tolist()
        self._values: list[list[int]] = values[:valued].tolist()

    def span(self, place: int) -> PlainSpan | None:
        """Return the span of the request at that place, like `plain_span`."""
        part = self._parts[place]
        usual = self._shared_by(part)
        if usual is None:
            return self.span_by_attributes(place) if part[USUAL] == REFUSED else None
        data, names, slots = self.data, SLOT_NAMES, self._slots[part[FIRST_SLOT] : part[BEHIND_SLOTS]]
        try:
            texts = {names[slot]: data[text:text_stop].decode() for slot, text, text_stop in slots}
            if not slots and part[ASKED] != REFUSED:
                if usual.operation is not None:
                    texts[otel.OPERATION] = usual.operation
                texts[otel.INPUT_MESSAGES] = data[part[ASKED] : part[ASKED_STOP]].decode()
                if part[REPLY] != REFUSED:
                    texts[otel.OUTPUT_MESSAGES] = data[part[REPLY] : part[REPLY_STOP]].decode()
        except ValueError:
            return None
        attributes = self._attributes(part, usual)
        if attributes is None:
            return self.span_by_attributes(place)
        return PlainSpan(texts, attributes, usual.has_more, usual.failed)

    def call(self, place: int) -> CallSpan | None:
        """Return the span of the request at that place as a call of a model; None where it is another one."""
        part = self._parts[place]
        begin, stop = part[ASKED], part[ASKED_STOP]
        usual = self._shared_by(part)
        if usual is None or begin == stop or usual.operation not in MODELS:
            return None
        error = UNNAMED_ERROR if usual.failed else None
        if part[FIRST_SLOT] != part[BEHIND_SLOTS]:
            for slot, text, text_stop in self._slots[part[FIRST_SLOT] : part[BEHIND_SLOTS]]:
                if slot == _ERROR:
                    error = _error_of(self.data[text:text_stop]) if text < text_stop else error
                elif slot not in (0, INPUT, OUTPUT):
                    # An attribute of a tool.
                    return None
        is_hidden = stop - begin <= _HIDDEN_MAX and self.data[begin:stop] in _HIDDEN
        if self.data[begin] != _LIST or is_hidden or error == "":
            return None
        if part[REPLY] == REFUSED and (usual.has_more or error is None):
            return None
        attributes = self._attributes(part, usual)
        if attributes is None:
            return None
        return CallSpan(attributes, error, begin, stop, part[REPLY], part[REPLY_STOP])

    def _attributes(self, part: list[int], usual: _Usual) -> dict[str, str] | None:
        """Return the attributes of a span; None where a varying one is to be read by itself."""
        if not usual.varying:
            return usual.attributes
        first = part[FIRST_VALUE]
        return with_varying(
            usual.attributes, usual.varying, self._values[first : first + len(usual.varying)], self.data
        )

    def _shared_by(self, part: list[int]) -> _Usual | None:
        """Return what a span shares with others; None where it is not plain, or has not been parted."""
        begin = part[USUAL]
        if begin == REFUSED:
            return None
        try:
            return self._shared[begin]
        except KeyError:
            usual = self._shared[begin] = _usual(self._usual[begin : part[USUAL_STOP]])
            return usual

    def is_parted(self, place: int) -> bool:
        """Return whether loops have parted the attributes of the span at that place."""
        return self._parts[place][USUAL] != REFUSED

    def span_by_attributes(self, place: int) -> PlainSpan | None:
        """Return the span at that place with its attributes read one by one, the same as `span`."""
        row: list[int] = self._spans[place].tolist()
        if row[FIRST] == REFUSED:
            return None
        first, behind, *_ = row
        fields: list[list[int]] = self._fields[first:behind].tolist()
        return _plain_span(self.data, row, fields)


def _plain_span(data: bytes, row: Sequence[int], fields: Sequence[list[int]]) -> PlainSpan | None:
    """Return the span of a row with these attributes; None where it is not plain."""
    _, _, resource, resource_stop, scope, scope_stop, status, status_stop = row
    texts: dict[str, str] = {}
    try:
        pairs = [_pair_of(data, *field) for field in fields]
    except (DecodeError, ValueError):
        # A text that is no UTF-8 raises a ValueError.
        return None
    for pair in pairs:
        if pair is not None and pair[1] is not None:
            texts[pair[0]] = pair[1]
    of_status = b"" if status == REFUSED else data[status:status_stop]
    usual = _usual_of(data[resource:resource_stop], data[scope:scope_stop], of_status, pairs)
    return None if usual is None else PlainSpan(texts, usual.attributes, usual.has_more, usual.failed)


def _pair_of(data: bytes, begin: int, stop: int, name_stop: int, text: int) -> _Pair | None:
    """Return an attribute at these offsets; None where its span is not plain."""
    if stop - begin <= SMALL:
        return _cached_pair(data[begin:stop])
    if text == REFUSED:
        return _pair(data[begin:stop])
    return _named(_use_of(data[begin + 2 : name_stop]), data[text:stop].decode())


def _error_of(written: bytes) -> str:
    """Return the type of an error by the bytes of its attribute; empty where these are no text."""
    try:
        return name_of(written.decode()) or UNNAMED_ERROR
    except ValueError:
        return ""


class _Usual(NamedTuple):
    """The fields of `PlainSpan` behind its texts, and its operation.

    `varying` are the names of attributes that vary, without their values; empty where rules cannot name them.
    """

    attributes: dict[str, str]
    has_more: bool
    failed: bool
    operation: str | None
    varying: tuple[str, ...] = ()


@lru_cache(maxsize=CACHED_MAX)
def _usual(written: bytes) -> _Usual | None:
    """Return what spans with these `usual` parts share; None where they are not plain."""
    parts: list[bytes] = []
    at = 0
    while at < len(written):
        begin = at + LENGTH_BYTES
        at = begin + int.from_bytes(written[at:begin], "little")
        parts.append(written[begin:at])
    resource, scope, status, *fields = parts
    try:
        pairs = [
            _varying_pair(field[1:]) if field[:1] == _VARYING else _cached_pair(field) for field in fields
        ]
    except (DecodeError, ValueError):
        return None
    usual = _usual_of(resource, scope, status, pairs)
    if usual is None:
        return None
    names = [field[1:].decode() for field in fields if field[:1] == _VARYING]
    return usual._replace(varying=tuple([name if is_plain(name) else "" for name in names]))


def _varying_pair(written: bytes) -> _Pair | None:
    """Return a varying attribute by its name, without its value; None where no span is plain."""
    use = _use_of(written)
    if use.is_odd or use.is_slot:
        return None
    return use.name, None, "" if use.is_further else None, use.is_more


def _usual_of(resource: bytes, scope: bytes, status: bytes, pairs: Iterable[_Pair | None]) -> _Usual | None:
    """Return what a span has beside its texts; None where it is not plain.

    Its attributes are those of the span, its scope and its resource, like those of `attributes_of`. It is not
    plain where there are too many.
    """
    try:
        named, _ = scope_of(scope)
        if named in _ODD_SCOPES:
            return None
        found = {otel.SCOPE_NAME: named} if named else {}
        has_more, operation = False, None
        for pair in pairs:
            if pair is None:
                return None
            name, of_slot, text, is_more = pair
            operation = of_slot if name == otel.OPERATION else operation
            if text is not None:
                found[name] = text
            has_more = has_more or is_more
        for name, text in _resource_attributes(resource):
            if name not in found:
                found[name] = text
        failed = _has_failed(status)
    except (DecodeError, ValueError):
        return None
    is_odd = len(found) > ATTRIBUTES_MAX or len(named) > ATTRIBUTE_CHARS_MAX
    return None if is_odd else _Usual(found, has_more, failed, operation)


@lru_cache(maxsize=CACHED_MAX)
def _has_failed(status: bytes) -> bool:
    return Status.FromString(status).code == Status.STATUS_CODE_ERROR


def _pair(field: bytes) -> _Pair | None:
    """Return an attribute in protobuf; None where its span is not plain."""
    pair = KeyValue.FromString(field)
    if len(pair.key) > SMALL:
        return None
    try:
        value = value_of_protobuf(pair.value)
    except Unreadable:
        return None
    use = _use_of(pair.key.encode())
    return _named(use, value) if isinstance(value, str) else _other(use, value)


_cached_pair = lru_cache(maxsize=CACHED_MAX)(_pair)


class _Use(NamedTuple):
    """An attribute's name, and the use of attributes of that name in a span."""

    name: str
    is_odd: bool
    is_slot: bool
    is_further: bool
    is_more: bool


@lru_cache(maxsize=CACHED_MAX)
def _use_of(written: bytes) -> _Use:
    """Return the use of attributes by the bytes of their name; raise ValueError where these are no text."""
    name = written.decode()
    is_odd = not name or name in _ODD or name.startswith(MESSAGES)
    is_further = is_plain(name)
    return _Use(name, is_odd, name in SLOTS, is_further, not (name in _KNOWN or is_further))


def _named(use: _Use, text: str) -> _Pair | None:
    """Return an attribute with a text."""
    name, is_odd, is_slot, is_further, is_more = use
    if is_odd:
        return None
    is_short = is_further and len(text) <= ATTRIBUTE_CHARS_MAX
    return name, text if is_slot else None, text if is_short else None, is_more


def _other(use: _Use, value: Value) -> _Pair | None:
    """Return an attribute with a value that is no text."""
    if use.is_odd or use.is_slot:
        return None
    return use.name, None, dict(plain_attributes({use.name: value})).get(use.name), use.is_more


def _resource_attributes(resource: bytes) -> tuple[tuple[str, str], ...]:
    if len(resource) > ATTRIBUTE_CHARS_MAX:
        return tuple(plain_attributes(resource_of(resource)))
    return _cached_attributes(resource)


@lru_cache(maxsize=CACHED_MAX)
def _cached_attributes(resource: bytes) -> tuple[tuple[str, str], ...]:
    return tuple(plain_attributes(resource_of(resource)))
