"""The labels of a few events in memory.

A Polars expression costs 20 to 500 us, whatever the number of rows. So what follows from few values is
evaluated once and remembered: the answers of cheap leaves by the values of their fields, and propositions by
the answers of their leaves. Searches, JSON and slices are evaluated on the rows on which they matter, in
plain Python where `plain` reads their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import polars as pl

from ..model.arrays import U8, U64, Mask
from ..model.predicate import And, Condition, Leaf, Literal, Not, Or, Path, Predicate, Test, leaves
from ..model.rule import SliceKey
from .guards import CAPTURED_FIELDS, guards, is_cheap
from .labelled_rows import EventColumns, RowLabels, Slices
from .plain import FALSE, TRUE, UNKNOWN, PlainEvents, PlainLeaf, PlainSlices, is_plain, is_plain_leaf
from .plan import ColumnPlan, combined
from .slices import slice_columns

WORD_BITS = 64
"""Propositions in one word of labels."""
REMEMBERED_MAX = 1 << 13
"""Keys of one memory; with another key it begins again."""
REMEMBERED_CHARS_MAX = 1 << 22
"""Characters of the keys of one memory, likewise."""


class RememberedRows:
    """Rows of bytes that are computed once for each key.

    The memory begins again with the keys of a call that would exceed its limits.
    """

    def __init__(self) -> None:
        self._known: dict[Any, bytes] = {}
        self._chars = 0

    def rows(self, keys: Sequence[Hashable], compute: Callable[[list[int]], U8]) -> U8:
        """Return the row of each key; `compute` returns those at some places of `keys`."""
        found: Sequence[bytes | None] = [*map(self._known.get, keys)]
        if None in found:
            self._learn(keys, compute)
            found = [*map(self._known.__getitem__, keys)]
        data = b"".join(cast("list[bytes]", found))
        return np.frombuffer(data, dtype=np.uint8).reshape(len(keys), -1 if data else 0)

    def _learn(self, keys: Sequence[Hashable], compute: Callable[[list[int]], U8]) -> None:
        """Remember the rows of the keys that are not known."""
        known = self._known
        new = {key: place for place, key in enumerate(keys) if key not in known}
        chars = self._chars + sum(len(repr(key)) for key in new)
        if len(known) + len(new) > REMEMBERED_MAX or chars > REMEMBERED_CHARS_MAX:
            known = self._known = {}
            new = {key: place for place, key in enumerate(keys)}
            chars = sum(len(repr(key)) for key in new)
        self._chars = chars
        known.update(zip(new, map(bytes, compute(list(new.values()))), strict=True))


@dataclass
class _RowGroup:
    """Costly conditions and slices that are evaluated on the same rows: those with the flag.

    The numbers are those of the leaves and of the `for_each` keys. Polars evaluates `answers` and `sliced`,
    and plain Python the others.
    """

    flag: int
    leaves: dict[int, PlainLeaf] = field(default_factory=dict[int, PlainLeaf])
    slices: dict[int, PlainSlices] = field(default_factory=dict[int, PlainSlices])
    plan: ColumnPlan = field(default_factory=ColumnPlan)
    answers: dict[int, pl.Expr] = field(default_factory=dict[int, pl.Expr])
    sliced: dict[int, tuple[pl.Expr, pl.Expr]] = field(default_factory=dict[int, tuple[pl.Expr, pl.Expr]])

    def by_polars(self, events: EventColumns, rows: Sequence[int]) -> list[pl.Series]:
        """Return the columns of `answers` as codes, and then those of `sliced`, on these rows."""
        frame = events.frame(sorted(self.plan.fields), rows)
        answers = [_code(answer).alias(f"p{number}") for number, answer in self.answers.items()]
        slices = [
            column.alias(f"{name}{number}")
            for number, columns in self.sliced.items()
            for name, column in zip(("s", "su"), columns, strict=True)
        ]
        return self.plan.apply_now(frame).select_seq(*answers, *slices).get_columns()


class FewLabels:
    """A plan of predicates and slices for a few events in memory; it remembers answers.

    `steps` has for each slice key a predicate that is false only where no rule of the key steps.
    """

    def __init__(self, predicates: Sequence[Predicate], steps: Mapping[SliceKey, Predicate]) -> None:
        self._predicates, self._keys = predicates, len(steps)
        self._width = -(-len(predicates) // WORD_BITS)
        # The keys are texts: `Leaf(..., (1,))` equals `Leaf(..., (True,))`.
        found = {repr(leaf): leaf for predicate in predicates for leaf in leaves(predicate)}
        cheap = {text: leaf for text, leaf in found.items() if is_cheap(leaf)}
        costly = {text: leaf for text, leaf in found.items() if text not in cheap}
        self._numbers = {text: number for number, text in enumerate([*cheap, *costly])}
        self._traits, self._cheap = ColumnPlan(), len(cheap)
        self._columns: list[pl.Expr] = [_code(self._traits.leaf(leaf)) for leaf in cheap.values()]
        self._groups: dict[tuple[str, ...], _RowGroup] = {}
        self._add_leaves(costly, guards(predicates))
        self._add_slices(steps)
        fields = {leaf.path.field for leaf in costly.values()}
        fields |= {path.field for key in steps for path in key.paths}
        self._opened = {name: self._open(name) for name in sorted(fields & CAPTURED_FIELDS)}
        self._columns = [column.alias(f"c{place}") for place, column in enumerate(self._columns)]
        self._compared = _compared_fields(cheap.values())
        self._known_traits, self._known_words = RememberedRows(), RememberedRows()

    @property
    def by_polars(self) -> bool:
        """Return whether Polars evaluates anything on each call."""
        return any(group.answers or group.sliced for group in self._groups.values())

    def label(self, events: EventColumns) -> RowLabels:
        """Return the labels of the events."""
        traits, plain = self._traits_of(events), PlainEvents(events)
        opened = {name: traits[:, place].tolist() for name, place in self._opened.items()}
        answers = np.zeros((len(events), len(self._numbers)), dtype=np.uint8)
        answers[:, : self._cheap] = traits[:, : self._cheap]
        slices: dict[int, Slices] = {}
        for group in self._groups.values():
            rows = np.flatnonzero(traits[:, group.flag])
            if not len(rows):
                continue
            places = rows.tolist()
            if group.leaves:
                found = [bytes(leaf.answers(plain, places, opened)) for leaf in group.leaves.values()]
                codes = np.frombuffer(b"".join(found), dtype=np.uint8).reshape(len(found), len(rows))
                answers[rows[:, None], [*group.leaves]] = codes.T
            for number, sliced in group.slices.items():
                slices[number] = _spread(sliced.slices(plain, places, opened), places, len(events))
            if group.answers or group.sliced:
                columns = iter(group.by_polars(events, places))
                for number, column in zip(group.answers, columns, strict=False):
                    answers[rows, number] = column.to_numpy()
                for number in group.sliced:
                    pair = next(columns).to_list(), next(columns).to_list()
                    slices[number] = _spread(pair, places, len(events))
        # A key without a slice in these rows has no values.
        nothing = [None] * len(events), [False] * len(events)
        of_keys = [slices.get(number, nothing) for number in range(self._keys)]
        return RowLabels(self._words_of(answers), of_keys)

    def _add_leaves(self, costly: Mapping[str, Condition], guards: Mapping[Condition, Predicate]) -> None:
        """Add a group for the costly leaves of each field with one guard."""
        for text, leaf in costly.items():
            guard, number = guards[leaf], self._numbers[text]
            flag = combined(guard, self._traits.leaf).fill_null(True)
            group = self._group((leaf.path.field, repr(guard)), flag)
            if is_plain_leaf(leaf):
                group.leaves[number] = PlainLeaf(leaf)
            else:
                group.answers[number] = group.plan.leaf(leaf)

    def _add_slices(self, steps: Mapping[SliceKey, Predicate]) -> None:
        """Add the slices to groups by their fields and guards."""
        for number, (key, guard) in enumerate(steps.items()):
            fields = sorted({path.field for path in key.paths})
            present = pl.any_horizontal([self._may_be_present(path) for path in key.paths])
            flag = combined(guard, self._traits.leaf).fill_null(True) & present
            group = self._group((repr(guard), *fields), flag)
            if all(map(is_plain, key.paths)):
                group.slices[number] = PlainSlices(key)
            else:
                group.sliced[number] = slice_columns(group.plan, key)

    def _group(self, key: tuple[str, ...], flag: pl.Expr) -> _RowGroup:
        if key not in self._groups:
            self._groups[key] = _RowGroup(len(self._columns))
            self._columns.append(flag.cast(pl.UInt8))
        return self._groups[key]

    def _open(self, name: str) -> int:
        """Add the column of where a field is open, and return its place."""
        opened = self._traits.open(Path(name))
        assert opened is not None
        self._columns.append(opened.cast(pl.UInt8))
        return len(self._columns) - 1

    def _may_be_present(self, path: Path) -> pl.Expr:
        """Return where the path's field is not known to be absent."""
        unknown = self._traits.open(path)
        return pl.lit(True) if unknown is None else self._traits.column(path.field).is_not_null() | unknown

    def _traits_of(self, events: EventColumns) -> U8:
        """Return the answers of the cheap leaves, the groups' flags and the open fields of each event."""
        names = sorted(self._traits.fields)
        columns = [
            events.column(name)
            if name in self._compared
            else [value is None for value in events.column(name)]
            for name in names
        ]
        keys = list(zip(*columns, strict=True)) if columns else [()] * len(events)

        def evaluate(places: list[int]) -> U8:
            # A frame without columns has no rows.
            frame = events.frame(names, places) if names else pl.DataFrame({"row": places})
            rows = self._traits.apply_now(frame)
            found = rows.select_seq(*self._columns).to_numpy() if self._columns else np.empty((len(rows), 0))
            return np.ascontiguousarray(found, dtype=np.uint8)

        return self._known_traits.rows(keys, evaluate)

    def _words_of(self, answers: U8) -> U64:
        """Return the words of true and then of unknown propositions, given the answers of all leaves."""
        count, width = answers.shape
        data = answers.tobytes()
        keys = [data[begin : begin + width] for begin in range(0, count * width, width)] if width else []
        found = self._known_words.rows(
            keys or [b""] * count, lambda places: self._words(answers[places]).view(np.uint8)
        )
        return found.view(np.uint64) if count else np.empty((0, 2 * self._width), dtype=np.uint64)

    def _words(self, answers: U8) -> U64:
        """Return for each row the words of true propositions, and then those of unknown ones."""
        bits = np.zeros((2, len(answers), len(self._predicates)), dtype=np.bool_)
        for number, predicate in enumerate(self._predicates):
            true, false = self._decided(predicate, answers)
            bits[0, :, number], bits[1, :, number] = true, ~(true | false)
        return np.hstack([_packed(flags) for flags in bits])

    def _decided(self, predicate: Predicate, answers: U8) -> tuple[Mask, Mask]:
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
                true, false = [part for part, _ in parts], [part for _, part in parts]
                if isinstance(predicate, And):
                    return np.logical_and.reduce([every, *true]), np.logical_or.reduce([~every, *false])
                return np.logical_or.reduce([~every, *true]), np.logical_and.reduce([every, *false])
            case _:
                column = answers[:, self._numbers[repr(predicate)]]
                return column == TRUE, column == FALSE


def _code(answer: pl.Expr) -> pl.Expr:
    """Return a nullable Boolean as the code of an answer."""
    return answer.cast(pl.UInt8).fill_null(UNKNOWN)


def _compared_fields(cheap: Iterable[Condition]) -> frozenset[str]:
    """Return the fields that some leaf reads beyond whether they are null."""
    plan = ColumnPlan()
    for leaf in cheap:
        if not (isinstance(leaf, Leaf) and leaf.test is Test.IS_NULL):
            plan.leaf(leaf)
    return frozenset(plan.fields) | {"kind", "content"}


def _spread(slices: Slices, places: Sequence[int], count: int) -> Slices:
    """Return slices over all rows, given those at these places."""
    if len(places) == count:
        return slices
    values: list[str | None] = [None] * count
    unknown = [False] * count
    for place, value, is_unknown in zip(places, *slices, strict=True):
        values[place], unknown[place] = value, is_unknown
    return values, unknown


def _packed(flags: Mask) -> U64:
    """Return the flags of each row as words: the first word holds the first 64."""
    words = [np.zeros((len(flags), 0), dtype=np.uint64)]
    for start in range(0, flags.shape[1], WORD_BITS):
        bits = flags[:, start : start + WORD_BITS].astype(np.uint64)
        words.append((bits @ (np.uint64(1) << np.arange(bits.shape[1], dtype=np.uint64)))[:, None])
    return np.hstack(words)
