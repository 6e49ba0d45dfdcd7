"""Conditions and slices of a few events in plain Python, where a Polars expression costs more than the rows.

The answers are those of `json_values` and `slices`. Rust's engine searches for regular expressions here, too:
pydantic's copy of it retains what it has learned of a pattern from call to call, and Polars' does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, TypeGuard, cast

import orjson

from ...schemas.event import Content
from ..model.fields import FIELDS, FieldType
from ..model.predicate import Condition, Leaf, Path, Scalar, Test, compared_text, is_number
from ..model.rule import SliceKey
from .guards import CAPTURED_FIELDS
from .json_values import JSON_FIELDS, SEARCHES, compared
from .labelled_rows import Column, EventColumns, Slices
from .numbers import double_text, loaded, written
from .regex_sets import NON_ASCII_LETTER, regex_set
from .slices import member_text

DEPTH_MAX = 127
"""Levels of arrays and objects beyond which Polars reads no JSON."""
VAST_MIN = 1e16
"""The smallest double that may stand for an integer whose digits are lost."""
FALSE, TRUE, UNKNOWN = range(3)
"""The codes of answers."""

_HAS_DOUBLE = re.compile(rb"[0-9](?:\.|e)")
"""A match in compact JSON with a double, and in some without."""
_MAY_BE_SUBTLE = re.compile(rb"[0-9](?:\.|e|[0-9]{15})|[\xf0-\xf4]")
"""A match in compact JSON of which orjson may not write the canonical form, and in some other."""

_OBJECT: Any = dict
_ARRAY: Any = list
"""The types of JSON's containers as the decoder returns them; a test of `type` is the fastest."""

DecodedJson: TypeAlias = Any
"""A JSON value; None where there is none, or null."""
RowNumbers: TypeAlias = Sequence[int]
Opened: TypeAlias = Mapping[str, Sequence[bool]]
"""By field, where it is open: its value is not wholly known."""


def is_plain(path: Path) -> bool:
    """Return whether this module reads what is at a path."""
    return FIELDS[path.field].type in (FieldType.TEXT, FieldType.JSON)


def is_plain_leaf(condition: Condition) -> TypeGuard[Leaf]:
    """Return whether this module evaluates a condition: one field of text or JSON against constants."""
    return isinstance(condition, Leaf) and condition.against is None and is_plain(condition.path)


class PlainEvents:
    """Events whose columns become lists, and whose JSON is decoded, where something asks for them.

    Rows ascend, each once. The conditions on a field ask for the same rows one after another: what they
    share is looked up once.
    """

    def __init__(self, events: EventColumns) -> None:
        self._events = events
        self._decoded: dict[str | None, DecodedJson] = {None: None}
        self._rows: RowNumbers = ()
        self._values: dict[str, Column] = {}
        self._documents: dict[str, Column] = {}
        self._whole: dict[str, Column] = {}
        self._ascii: dict[str, bool] = {}

    def column(self, name: str) -> Column:
        """Return the values of a column."""
        return self._events.column(name)

    def values(self, name: str, rows: RowNumbers) -> Column:
        """Return the values of a column on these rows."""
        if rows is not self._rows:
            self._rows = rows
            self._values, self._documents, self._whole, self._ascii = {}, {}, {}, {}
        if name not in self._values:
            column = self.column(name)
            self._values[name] = column if len(rows) == len(column) else [*map(column.__getitem__, rows)]
        return self._values[name]

    def decoded(self, path: Path, rows: RowNumbers) -> list[DecodedJson]:
        """Return the JSON values at a path on these rows."""
        documents, known = self.values(path.field, rows), self._decoded
        if path.field not in self._documents:
            known.update({document: decoded(document) for document in {*documents} - known.keys()})
            self._documents[path.field] = [*map(known.__getitem__, documents)]
        values: list[Any] = self._documents[path.field]
        for step in path.steps:
            if isinstance(step, str):
                found = [value.get(step) if type(value) is _OBJECT else None for value in values]
            else:
                found = [_item(value, step) for value in values]
            values = cast("list[Any]", found)
        return values

    def texts(self, name: str, rows: RowNumbers) -> Column:
        """Return the values of a text field, or of a whole JSON field as text, on these rows."""
        documents = self.values(name, rows)
        if name not in JSON_FIELDS:
            return documents
        if name not in self._whole:
            self._whole[name] = [*map(_whole, documents, self.decoded(Path(name), rows))]
        return self._whole[name]

    def are_ascii(self, name: str, rows: RowNumbers) -> bool:
        """Return whether all of `texts` have only ASCII characters."""
        texts = self.texts(name, rows)
        if name not in self._ascii:
            self._ascii[name] = "".join(filter(None, texts)).isascii()
        return self._ascii[name]


def decoded(document: str) -> DecodedJson:
    """Return the value of a JSON text, None where `json_values.at_path` finds nothing in it."""
    try:
        value = loaded(document)
    except orjson.JSONDecodeError:
        return None
    if len(document) <= DEPTH_MAX:
        return value
    is_deep = document.count("[") + document.count("{") > DEPTH_MAX and _depth(value) > DEPTH_MAX
    return None if is_deep else value


def text_of(value: DecodedJson) -> str | None:
    """Return a value as the text that `json_values.at_path` returns."""
    if value is None or type(value) is str:
        return value
    if type(value) is float:
        return double_text(value)
    data = orjson.dumps(value)
    return written(value) if _HAS_DOUBLE.search(data) else data.decode()


def _item(value: DecodedJson, place: int) -> DecodedJson:
    return value[place] if type(value) is _ARRAY and place < len(value) else None


def _depth(value: DecodedJson) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, cast("dict[str, Any]", value).values()), default=0)
    return 1 + max(map(_depth, cast("list[Any]", value)), default=0) if isinstance(value, list) else 0


def _is_container(value: DecodedJson) -> bool:
    return type(value) is _OBJECT or type(value) is _ARRAY


def _is_vast(value: DecodedJson) -> bool:
    """Return whether a value is a number whose digits are lost, or holds one."""
    if isinstance(value, (dict, list)):
        held = cast("list[Any]", value.values() if isinstance(value, dict) else value)
        return any(map(_is_vast, held))
    return type(value) is float and abs(value) >= VAST_MIN


def _whole(document: str | None, value: DecodedJson) -> str | None:
    """Return the value of a whole JSON field as text; a JSON string is decoded."""
    if document == "null":
        return None
    return value if type(value) is str and document is not None and document[:1] == '"' else document


class PlainLeaf:
    """A condition on a text or on JSON, for a few events."""

    def __init__(self, leaf: Leaf) -> None:
        assert is_plain_leaf(leaf)
        self._leaf = leaf

    @cached_property
    def _found(self) -> Callable[[Sequence[str | None]], list[bool]]:
        test, operands = self._leaf.test, self._leaf.operands
        if test is Test.IS_NULL:
            return lambda values: [value is None for value in values]
        holds = _test(test, operands)
        return lambda values: [value is not None and holds(value) for value in values]

    @cached_property
    def _searched(self) -> Callable[[Sequence[str | None], bool], list[bool]]:
        # An audit, which labels no few events, compiles no pattern here.
        return _searcher(str(self._leaf.operands[0]))

    def _answers(self, events: PlainEvents, rows: RowNumbers) -> list[bool]:
        """Return the answers where nothing is unknown."""
        path, operands = self._leaf.path, self._operands(events, rows)
        if self._leaf.test is not Test.MATCHES:
            return self._found(operands)
        is_whole = not path.steps
        return self._searched(operands, is_whole and events.are_ascii(path.field, rows))

    def answers(self, events: PlainEvents, rows: RowNumbers, opened: Opened) -> Sequence[int]:
        """Return the code of the answer on each of these rows."""
        test, name = self._leaf.test, self._leaf.path.field
        found = self._answers(events, rows)
        unknown = opened[name] if name in CAPTURED_FIELDS else ()
        if not any(unknown):
            # As numbers these are the codes.
            return found
        contents = events.column("content") if test in SEARCHES else []
        codes: list[int] = []
        for row, answer in zip(rows, found, strict=True):
            is_unknown = unknown[row]
            if is_unknown and test is Test.IS_NULL:
                is_unknown = answer
            elif is_unknown and contents:
                is_unknown = not (answer and contents[row] == Content.TRUNCATED.value)
            codes.append(UNKNOWN if is_unknown else TRUE if answer else FALSE)
        return codes

    def _operands(self, events: PlainEvents, rows: RowNumbers) -> Sequence[str | None]:
        """Return the texts that the condition tests. A whole object or array is searched, not compared."""
        path, test = self._leaf.path, self._leaf.test
        if path.field not in JSON_FIELDS or (not path.steps and test in (Test.IS_NULL, *SEARCHES)):
            return events.texts(path.field, rows)
        found = events.decoded(path, rows)
        if path.steps and test is Test.IS_NULL:
            return [None if value is None else "" for value in found]
        if path.steps:
            return [None if _is_container(value) else text_of(value) for value in found]
        texts = events.texts(path.field, rows)
        return [None if _is_container(value) else text for value, text in zip(found, texts, strict=True)]


def _test(test: Test, operands: Sequence[Scalar]) -> Callable[[str], bool]:
    """Return the test of a value."""
    match test:
        case Test.CONTAINS:
            part = str(operands[0])
            return lambda value: part in value
        case Test.STARTS_WITH:
            part = str(operands[0])
            return lambda value: value.startswith(part)
        case Test.IN:
            texts = frozenset(compared_text(operand) for operand in operands if not is_number(operand))
            numbers = [compared(Test.EQ, operand) for operand in operands if is_number(operand)]
            if not numbers:
                return texts.__contains__
            return lambda value: value in texts or any(equals(value) for equals in numbers)
        case Test.NE:
            equal = compared(Test.EQ, operands[0])
            return lambda value: not equal(value)
        case _:
            return compared(test, operands[0])


def _searcher(pattern: str) -> Callable[[Sequence[str | None], bool], list[bool]]:
    """Return the search of texts for a regular expression by Rust's engine, in fast spellings if any.

    Its second argument states that all texts are ASCII.
    """
    exact, form = _engine(pattern), regex_set([pattern]).forms.get(pattern)
    if form is None:
        return lambda texts, _are_ascii: [*map(exact, texts)]
    plain, weak, has_letters = _engine(form.plain), _engine(form.weak), _engine(NON_ASCII_LETTER)

    def is_found(text: str | None) -> bool:
        if text is None:
            return False
        is_plain_text = text.isascii() or not has_letters(text)
        return plain(text) if is_plain_text else weak(text) and exact(text)

    def search(texts: Sequence[str | None], are_ascii: bool) -> list[bool]:
        # Calls from within `map` take a third of the time of those in a comprehension.
        return [*map(plain if are_ascii else is_found, texts)]

    return search


def _engine(pattern: str) -> Callable[[str | None], bool]:
    """Return the search for a regular expression as it is written; it finds nothing in None."""
    # Commands that label nothing do not need pydantic, and start faster without it.
    from pydantic_core import SchemaValidator, core_schema

    schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    return SchemaValidator(schema).isinstance_python


class PlainSlices:
    """The slices of a `for_each` key, for a few events."""

    def __init__(self, key: SliceKey) -> None:
        assert all(map(is_plain, key.paths))
        self._key = key

    def slices(self, events: PlainEvents, rows: RowNumbers, opened: Opened) -> Slices:
        """Return the value on each of these rows, and whether it is unknown, as `slices.slice_columns`."""
        if not self._key.joint:
            return self._first_scalars(events, rows, opened)
        fields = dict.fromkeys(path.field for path in self._key.paths)
        columns = [events.values(name, rows) for name in fields]
        columns += [[opened[name][row] for row in rows] for name in fields if any(opened.get(name, ()))]
        # A call and its result are of one slice: what equals is computed once.
        keys = [*zip(*columns, strict=True)]
        firsts = dict(zip(keys[::-1], rows[::-1], strict=True))
        chosen = sorted(firsts, key=firsts.__getitem__)
        values, unknown = self._tuples(events, [*map(firsts.__getitem__, chosen)], opened)
        found, lost = dict(zip(chosen, values, strict=True)), dict(zip(chosen, unknown, strict=True))
        return [*map(found.__getitem__, keys)], [*map(lost.__getitem__, keys)]

    def _opens(self, rows: RowNumbers, opened: Opened) -> list[list[bool]]:
        """Return by path where its field is open."""
        opens = [opened.get(path.field) for path in self._key.paths]
        return [[False] * len(rows) if each is None else [each[row] for row in rows] for each in opens]

    def _first_scalars(self, events: PlainEvents, rows: RowNumbers, opened: Opened) -> Slices:
        values: list[str | None] = [None] * len(rows)
        unknown = [False] * len(rows)
        coming: Sequence[int] = range(len(rows))
        for path, are_open in zip(self._key.paths, self._opens(rows, opened), strict=True):
            texts, are_lost = self._scalars(path, events, rows)
            left: list[int] = []
            for place in coming:
                if are_lost[place] or are_open[place]:
                    unknown[place] = True
                elif (text := texts[place]) is None:
                    left.append(place)
                else:
                    values[place] = text
            coming = left
        return values, unknown

    def _scalars(
        self, path: Path, events: PlainEvents, rows: RowNumbers
    ) -> tuple[Sequence[str | None], Sequence[bool]]:
        """Return the scalars at a path as text, and where the slice is unknown for what is there."""
        if path.field not in JSON_FIELDS:
            return events.values(path.field, rows), [False] * len(rows)
        found = events.decoded(path, rows)
        if path.steps:
            are_lost = [type(each) is not str and (_is_container(each) or _is_vast(each)) for each in found]
            return [each if type(each) is str else text_of(each) for each in found], are_lost
        return events.texts(path.field, rows), list(map(_is_container, found))

    def _tuples(self, events: PlainEvents, rows: RowNumbers, opened: Opened) -> Slices:
        opens = self._opens(rows, opened)
        members = [self._members(path, events, rows) for path in self._key.paths]
        texts = zip(*(each for each, _ in members), strict=True)
        if not any(any(are_vast) for _, are_vast in members) and not any(map(any, opens)):
            known = [*map(_array, texts)]
            return known, [False] * len(known)
        values: list[str | None] = []
        unknown: list[bool] = []
        vast = zip(*(are_vast for _, are_vast in members), strict=True)
        for row, are_vast, are_open in zip(texts, vast, zip(*opens, strict=True), strict=True):
            is_absent = None in row and any(
                text is None and not is_open for text, is_open in zip(row, are_open, strict=True)
            )
            unknown.append(not is_absent and (any(are_open) or any(are_vast)))
            values.append(None if unknown[-1] else _array(row))
        return values, unknown

    def _members(self, path: Path, events: PlainEvents, rows: RowNumbers) -> Slices:
        """Return each member's canonical JSON, None where it is absent, and whether digits are lost."""
        texts = events.values(path.field, rows)
        are_vast = [False] * len(texts)
        if path.field not in JSON_FIELDS:
            return [None if text is None else _quoted(text) for text in texts], are_vast
        members: list[str | None] = [None] * len(texts)
        for place, (document, value) in enumerate(zip(texts, events.decoded(path, rows), strict=True)):
            if not path.steps and _whole(document, value) is None:
                continue
            if value is None or type(value) is str:
                text = document if value is None and not path.steps else value
                members[place] = None if text is None else _quoted(text)
            else:
                members[place], are_vast[place] = _canonical(value)
        return members, are_vast


def _array(texts: Sequence[str | None]) -> str | None:
    return None if None in texts else f"[{','.join(cast('Sequence[str]', texts))}]"


@lru_cache(maxsize=1024)
def _quoted(text: str) -> str:
    return member_text(text, False)


def _canonical(value: DecodedJson) -> tuple[str, bool]:
    """Return the canonical form of a JSON value that is no string, and whether digits are lost."""
    # A match is within one number or string, so it is there in any order of keys.
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if type(value) is not float and not _MAY_BE_SUBTLE.search(data):
        return data.decode(), False
    text = text_of(value)
    assert text is not None
    # Only numbers as large as that are written with a positive exponent.
    return member_text(text, True), "e+" in text and _is_vast(value)
