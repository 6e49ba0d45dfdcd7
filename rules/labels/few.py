"""The labels of a few events in memory.

A Polars expression costs 20 to 100 us, whatever the number of rows. So what follows from few values is
evaluated once and remembered: the answers of cheap leaves by the values of their fields, and propositions by
the answers of their leaves. Searches, JSON and slices are evaluated on the rows on which they matter, and not
at all where there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..model.predicate import And, Leaf, Literal, Not, Or, Path, Predicate, Test
from ..model.rule import SliceKey
from .decoded import DecodedPlan
from .guards import CAPTURED_FIELDS, any_of, guards, is_cheap, leaves
from .plan import ColumnPlan, combined
from .slices import slice_columns

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
Flags = NDArray[np.bool_]

WORD_BITS = 64
"""Propositions in one word of labels."""
REMEMBERED_MAX = 1 << 13
"""Keys of one memory; with another key it begins again."""
_FALSE, _TRUE, _UNKNOWN = range(3)
"""The codes of answers."""


class RememberedRows:
    """Rows of bytes that are evaluated once for each key."""

    def __init__(self) -> None:
        self._known: dict[Any, bytes] = {}

    def rows(self, keys: Sequence[Hashable], evaluate: Callable[[list[int]], U8]) -> bytes:
        """Return the rows of the keys, one after another.

        `evaluate` returns the rows at some places of `keys`.
        """
        known = self._known
        new = {key: place for place, key in enumerate(keys) if key not in known}
        if len(known) + len(new) > REMEMBERED_MAX:
            known = self._known = {}
            new = {key: place for place, key in enumerate(keys)}
        if new:
            found = np.ascontiguousarray(evaluate(list(new.values())))
            known.update(zip(new, map(bytes, found), strict=True))
        return b"".join([known[key] for key in keys])


@dataclass
class _Group:
    """Costly leaves and slices that are evaluated on the same rows: those where the flag is set.

    `answers` has the columns of leaves by their numbers, `slices` those of `for_each` keys by theirs.
    """

    flag: int
    plan: DecodedPlan = field(default_factory=DecodedPlan)
    answers: dict[int, pl.Expr] = field(default_factory=dict[int, pl.Expr])
    slices: dict[int, tuple[pl.Expr, pl.Expr]] = field(default_factory=dict[int, tuple[pl.Expr, pl.Expr]])

    def evaluate(self, events: pl.DataFrame, rows: Flags, opened: Mapping[str, Flags]) -> list[pl.Series]:
        """Return the answers' codes and then the slices on these rows of the events.

        `opened` has where each field is open.
        """
        fields = [events.get_column(name) for name in sorted(self.plan.fields)]
        fields += [pl.Series(name, opened[opened_field]) for opened_field, name in self.plan.opened.items()]
        if not rows.all():
            mask = pl.Series(rows)
            fields = [column.filter(mask) for column in fields]
        answers = [_code(answer).alias(f"p{number}") for number, answer in self.answers.items()]
        slices = [
            column.alias(f"{name}{number}")
            for number, columns in self.slices.items()
            for name, column in zip(("s", "su"), columns, strict=True)
        ]
        frame = pl.DataFrame(fields)
        frame = pl.DataFrame([*frame.get_columns(), *self.plan.inputs(frame)])
        return self.plan.apply_now(frame).select_seq(*answers, *slices).get_columns()


class FewLabels:
    """A plan of predicates and slices for a few events in memory; it remembers answers.

    `steps` has for each slice key a predicate that is false only where no rule of the key steps.
    """

    def __init__(self, predicates: Sequence[Predicate], steps: Mapping[SliceKey, Predicate]) -> None:
        self._predicates = predicates
        # The keys are texts: `Leaf(..., (1,))` equals `Leaf(..., (True,))`.
        found = {repr(leaf): leaf for predicate in predicates for leaf in leaves(predicate)}
        cheap = {text: leaf for text, leaf in found.items() if is_cheap(leaf)}
        costly = {text: leaf for text, leaf in found.items() if text not in cheap}
        self._numbers = {text: number for number, text in enumerate([*cheap, *costly])}
        self._traits, self._cheap = ColumnPlan(), len(cheap)
        self._columns = [
            _code(self._traits.leaf(leaf)).alias(f"p{i}") for i, leaf in enumerate(cheap.values())
        ]
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._add_leaves(costly, guards(predicates))
        self._add_slices(steps)
        self._opened: dict[str, int] = {}
        for name in sorted({name for group in self._groups.values() for name in group.plan.opened}):
            self._add_opened(name)
        self._compared = _compared_fields(cheap.values())
        self._known_traits, self._known_words = RememberedRows(), RememberedRows()

    def label(self, events: pl.DataFrame) -> list[pl.Series]:
        """Return the columns of `Labeler.label` for the events."""
        traits = self._traits_of(events)
        answers = np.zeros((len(events), len(self._numbers)), dtype=np.uint8)
        answers[:, : self._cheap] = traits[:, : self._cheap]
        slices = [_no_slices(number, len(events)) for number in range(self._keys)]
        opened = {name: traits[:, place] != 0 for name, place in self._opened.items()}
        for group in self._groups.values():
            rows = traits[:, group.flag] != 0
            if rows.any():
                found = group.evaluate(events, rows, opened)
                for number, column in zip(group.answers, found, strict=False):
                    answers[rows, number] = column.to_numpy()
                for place, number in enumerate(group.slices):
                    at = len(group.answers) + 2 * place
                    slices[number] = _spread(found[at : at + 2], rows)
        return [*self._words_of(answers), *(column for columns in slices for column in columns)]

    def _traits_of(self, events: pl.DataFrame) -> U8:
        """Return the answers of the cheap leaves and the flags of the groups, a row for each event."""
        names = sorted(self._traits.fields)
        columns = [events.get_column(name).to_list() for name in names]
        columns = [
            column if name in self._compared else [value is None for value in column]
            for name, column in zip(names, columns, strict=True)
        ]
        keys = list(zip(*columns, strict=True)) if columns else [()] * len(events)

        def evaluate(places: list[int]) -> U8:
            rows = self._traits.apply_now(events[places])
            return rows.select_seq(*self._columns).to_numpy() if self._columns else _nothing(len(places))

        found = self._known_traits.rows(keys, evaluate)
        return np.frombuffer(found, dtype=np.uint8).reshape(len(keys), len(self._columns))

    def _words_of(self, answers: U8) -> list[pl.Series]:
        """Return the words of true and of unknown propositions, given the answers of all leaves."""
        count, width = answers.shape
        data, words = answers.tobytes(), -(-len(self._predicates) // WORD_BITS)
        keys = [data[begin : begin + width] for begin in range(0, count * width, width)] if width else []
        found = self._known_words.rows(
            keys or [b""] * count, lambda places: self._words(answers[places]).view(np.uint8)
        )
        rows = np.frombuffer(found, dtype=np.uint64).reshape(count, 2 * words)
        names = [f"{letter}{word}" for letter in "tu" for word in range(words)]
        return [pl.Series(name, rows[:, place]) for place, name in enumerate(names)]

    def _words(self, answers: U8) -> U64:
        """Return for each row the words of true propositions, and then those of unknown ones."""
        bits = np.zeros((2, len(answers), len(self._predicates)), dtype=np.bool_)
        for number, predicate in enumerate(self._predicates):
            true, false = self._decided(predicate, answers)
            bits[0, :, number], bits[1, :, number] = true, ~(true | false)
        return np.hstack([_packed(flags) for flags in bits])

    def _decided(self, predicate: Predicate, answers: U8) -> tuple[Flags, Flags]:
        """Return where a predicate is true and where it is false, by Kleene's strong logic."""
        match predicate:
            case Literal(value):
                constant = np.full(len(answers), value)
                return constant, ~constant
            case Not(arg):
                true, false = self._decided(arg, answers)
                return false, true
            case And(args) | Or(args):
                parts = [self._decided(arg, answers) for arg in args]
                every = np.ones(len(answers), dtype=np.bool_)
                true, false = (list(flags) for flags in zip(*parts, strict=True)) if parts else ([], [])
                if isinstance(predicate, And):
                    return np.logical_and.reduce([every, *true]), np.logical_or.reduce([~every, *false])
                return np.logical_or.reduce([~every, *true]), np.logical_and.reduce([every, *false])
            case _:
                column = answers[:, self._numbers[repr(predicate)]]
                return column == _TRUE, column == _FALSE

    def _add_leaves(self, costly: Mapping[str, Leaf], guards: Mapping[Leaf, Predicate]) -> None:
        """Add a group for the costly leaves of each field."""
        by_field: dict[str, list[str]] = {}
        for text, leaf in costly.items():
            by_field.setdefault(leaf.path.field, []).append(text)
        for name, texts in by_field.items():
            guard = any_of(guards[costly[text]] for text in texts)
            group = self._group((name,), combined(guard, self._traits.leaf).fill_null(True))
            for text in texts:
                group.answers[self._numbers[text]] = group.plan.leaf(costly[text])

    def _add_slices(self, steps: Mapping[SliceKey, Predicate]) -> None:
        """Add the slices to groups by their fields and guards."""
        self._keys = len(steps)
        for number, (key, guard) in enumerate(steps.items()):
            fields = sorted({path.field for path in key.paths})
            present = pl.any_horizontal([self._may_be_present(path) for path in key.paths])
            flag = combined(guard, self._traits.leaf).fill_null(True) & present
            group = self._group((repr(guard), *fields), flag)
            group.slices[number] = slice_columns(group.plan, key)

    def _group(self, key: tuple[str, ...], flag: pl.Expr) -> _Group:
        if key not in self._groups:
            self._groups[key] = _Group(len(self._columns))
            self._columns.append(flag.cast(pl.UInt8).alias(f"g{len(self._groups)}"))
        return self._groups[key]

    def _add_opened(self, name: str) -> None:
        opened = self._traits.open(Path(name))
        assert opened is not None
        self._opened[name] = len(self._columns)
        self._columns.append(opened.cast(pl.UInt8).alias(f"open_{name}"))

    def _may_be_present(self, path: Path) -> pl.Expr:
        """Return where the path's field is not known to be absent."""
        unknown = self._traits.open(path)
        if path.field not in CAPTURED_FIELDS or unknown is None:
            return pl.lit(True)
        return self._traits.column(path.field).is_not_null() | unknown


def _code(answer: pl.Expr) -> pl.Expr:
    """Return a nullable Boolean as the code of an answer."""
    return answer.cast(pl.UInt8).fill_null(_UNKNOWN)


def _compared_fields(cheap: Iterable[Leaf]) -> frozenset[str]:
    """Return the fields that some leaf reads beyond whether they are null."""
    plan = ColumnPlan()
    for leaf in cheap:
        if leaf.test is not Test.IS_NULL:
            plan.leaf(leaf)
    return frozenset(plan.fields) | {"kind", "content"}


def _nothing(rows: int) -> U8:
    return np.empty((rows, 0), dtype=np.uint8)


def _packed(flags: Flags) -> U64:
    """Return the flags of each row as words: the first word holds the first 64."""
    words = [np.zeros((len(flags), 0), dtype=np.uint64)]
    for start in range(0, flags.shape[1], WORD_BITS):
        bits = flags[:, start : start + WORD_BITS].astype(np.uint64)
        words.append((bits @ (np.uint64(1) << np.arange(bits.shape[1], dtype=np.uint64)))[:, None])
    return np.hstack(words)


def _no_slices(number: int, count: int) -> list[pl.Series]:
    """Return the columns of a `for_each` key of which no event has a slice."""
    return [
        pl.Series(f"s{number}", [None] * count, dtype=pl.String),
        pl.Series(f"su{number}", np.zeros(count, dtype=np.bool_)),
    ]


def _spread(columns: Sequence[pl.Series], rows: Flags) -> list[pl.Series]:
    """Return the columns of a `for_each` key over all rows, given those of these rows."""
    if rows.all():
        return list(columns)
    value, unknown = columns
    values: list[str | None] = [None] * len(rows)
    for place, text in zip(np.flatnonzero(rows).tolist(), value.to_list(), strict=True):
        values[place] = text
    flags = np.zeros(len(rows), dtype=np.bool_)
    flags[rows] = unknown.to_numpy()
    return [pl.Series(value.name, values, dtype=pl.String), pl.Series(unknown.name, flags)]
