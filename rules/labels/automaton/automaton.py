"""A deterministic automaton that searches an ASCII text for several patterns in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.arrays import U8, U64
from .ascii_syntax import WORD, AsciiPattern, is_anchored, read_pattern, without_boundaries
from .states import Beside, PatternStates, TooLargeError, members

STATES_MAX = 1_000
"""States of one automaton. Patterns such as `a.{20}b` would have more than a million."""

WORK_MAX = 300_000
"""Nodes that are visited to build one automaton: a fraction of a second."""

PATTERNS_TRIED_MAX = 32
"""Patterns of a regex set that may have automata; those of hostile packs are many and large."""

BEYOND_ASCII = 63
"""The bit that a text with a character beyond ASCII sets, whose other bits mean nothing."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """The tables of an automaton, for the loop that steps it.

    A state is the place of its row in `following`, and 0 the first one; `following[state + classes[byte]]` is
    the next. States from `reporting` on set the bits `found[state // width]`; at the end of a text each sets
    those of `at_end`. Bit `i` is the pattern `i`.
    """

    classes: U8
    following: NDArray[np.uint32]
    width: int
    reporting: int
    found: U64
    at_end: U64


@dataclass(frozen=True, slots=True)
class Automata:
    """Automata of some of the given patterns: each with the places of its patterns.

    The patterns at the places in `weak` are searched without their boundaries, and so may match too often.
    """

    groups: tuple[tuple[Automaton, tuple[int, ...]], ...]
    weak: frozenset[int]


@lru_cache(maxsize=64)
def automata_of(patterns: tuple[str, ...]) -> Automata:
    """Return automata of the patterns that have one; Rust's engine accepts them all.

    There is none where all patterns are anchored: Rust's engine leaves most texts after a few characters.
    """
    trees: dict[int, AsciiPattern] = {}
    weak: set[int] = set()
    for place, text in enumerate(patterns[:PATTERNS_TRIED_MAX]):
        tree = read_pattern(text)
        if tree is not None and _built([tree]) is None:
            tree = without_boundaries(tree)
            weak.add(place)
            if _built([tree]) is None:
                continue
        if tree is not None:
            trees[place] = tree
    places = () if all(map(is_anchored, trees.values())) else tuple(trees)
    return Automata(tuple(_groups(trees, places)), frozenset(weak.intersection(places)))


def _groups(
    trees: Mapping[int, AsciiPattern], places: tuple[int, ...]
) -> Iterator[tuple[Automaton, tuple[int, ...]]]:
    """Yield automata of the patterns at these places, each of which has one."""
    if not places:
        return
    found = _built([trees[place] for place in places])
    if found is not None:
        yield found, places
        return
    half = -(-len(places) // 2)
    yield from _groups(trees, places[:half])
    yield from _groups(trees, places[half:])


def _built(patterns: Sequence[AsciiPattern]) -> Automaton | None:
    try:
        return _Building.of(patterns).automaton()
    except TooLargeError:
        return None


@dataclass(slots=True)
class _Building:
    """An automaton that is built.

    The key of a state is a set of nodes, the character before, and the patterns that were just found.
    """

    states: PatternStates
    classes: U8
    takes: list[int]
    beside: list[Beside]
    rows: list[list[int]] = field(default_factory=list["list[int]"])
    keys: list[tuple[int, Beside, int]] = field(default_factory=list["tuple[int, Beside, int]"])
    work: int = 0

    @staticmethod
    def of(patterns: Sequence[AsciiPattern]) -> _Building:
        """Return the beginning: the classes of characters that no pattern distinguishes."""
        states = PatternStates.of(patterns)
        sets = list(dict.fromkeys(bits for bits in states.characters if bits is not None))
        signatures: dict[tuple[bool, ...], int] = {}
        classes = np.zeros(256, dtype=np.uint8)
        examples: list[int] = []
        for code in range(128):
            signature = tuple(bool(bits >> code & 1) for bits in (WORD, *sets))
            if signature not in signatures:
                signatures[signature] = len(examples)
                examples.append(code)
            classes[code] = signatures[signature]
        classes[128:] = len(examples)
        takes = [
            sum(
                1 << node
                for node, bits in enumerate(states.characters)
                if bits is not None and bits >> code & 1
            )
            for code in examples
        ]
        beside = [Beside.WORD if WORD >> code & 1 else Beside.OTHER for code in examples]
        return _Building(states, classes, takes, beside)

    def automaton(self) -> Automaton:
        """Return the automaton. Raises TooLargeError."""
        first = self.states.starts, Beside.NONE, 0
        numbers: dict[tuple[int, Beside, int], int] = {first: 0}
        self.keys.append(first)
        for nodes, before, _ in self.keys:  # the loop appends keys
            closed = {
                next_: self.states.closure(nodes, before, next_) for next_ in (Beside.WORD, Beside.OTHER)
            }
            found = {next_: self._found(reached) for next_, reached in closed.items()}
            row: list[int] = []
            for takes, next_ in zip(self.takes, self.beside, strict=True):
                key = self._step(closed[next_] & takes), next_, found[next_]
                if key not in numbers:
                    if len(self.keys) == STATES_MAX:
                        raise TooLargeError
                    numbers[key] = len(self.keys)
                    self.keys.append(key)
                row.append(numbers[key])
            self.rows.append(row)
        return self._tables()

    def _step(self, nodes: int) -> int:
        """Return the nodes after a character, and those where a match may begin."""
        self.work += nodes.bit_count()
        if self.work > WORK_MAX:
            raise TooLargeError
        reached = self.states.starts
        for node in members(nodes):
            reached |= 1 << self.states.after[node]
        return reached

    def _found(self, nodes: int) -> int:
        return sum(1 << number for number, end in enumerate(self.states.ends) if nodes >> end & 1)

    def _tables(self) -> Automaton:
        """Return the tables, with the states that report last, after them that of texts beyond ASCII."""
        width, beyond = len(self.takes) + 1, len(self.keys)
        order = sorted(range(beyond), key=lambda state: bool(self.keys[state][2]))
        place = {state: number for number, state in enumerate(order)}
        table = np.full((beyond + 1, width), beyond * width, dtype=np.uint32)
        for state, row in enumerate(self.rows):
            table[place[state], :-1] = [place[target] * width for target in row]
        ends = [
            self._found(self.states.closure(nodes, before, Beside.NONE)) for nodes, before, _ in self.keys
        ]
        found: list[Any] = [*(self.keys[state][2] for state in order), 1 << BEYOND_ASCII]
        at_end: list[Any] = [*(ends[state] for state in order), 0]
        return Automaton(
            classes=self.classes,
            following=table.ravel(),
            width=width,
            reporting=sum(not key[2] for key in self.keys) * width,
            found=np.array(found, dtype=np.uint64),
            at_end=np.array(at_end, dtype=np.uint64),
        )
