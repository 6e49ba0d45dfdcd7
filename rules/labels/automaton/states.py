"""The states of patterns: Thompson's construction, with edges for the assertions on places in the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from .ascii_syntax import AnyOf, AsciiPattern, Assertion, Characters, InTurn, Repeated

NODES_MAX = 1_500
"""Nodes of all patterns together; counted repetitions make many."""


class Beside(IntEnum):
    """The neighbour of a place in a text: no character, a word character, or another one."""

    NONE = 0
    WORD = 1
    OTHER = 2


class TooLargeError(Exception):
    """Patterns with more nodes or states than are worth it."""


@dataclass(slots=True)
class PatternStates:
    """The nodes of patterns. A set of nodes is an integer with their bits.

    `characters` has the set that a node takes, and `after` its next node. `edges` are the edges of the other
    nodes, each with its assertion, if any. `starts` are the first nodes of the patterns, and
    `ends` their last ones.
    """

    characters: list[int | None] = field(default_factory=list["int | None"])
    after: list[int] = field(default_factory=list["int"])
    edges: list[list[tuple[Assertion | None, int]]] = field(
        default_factory=list["list[tuple[Assertion | None, int]]"]
    )
    starts: int = 0
    ends: list[int] = field(default_factory=list["int"])
    _closures: dict[tuple[int, int, int], int] = field(default_factory=dict[tuple[int, int, int], int])

    @staticmethod
    def of(patterns: Sequence[AsciiPattern]) -> PatternStates:
        """Return the nodes of the patterns. Raises TooLargeError."""
        states = PatternStates()
        for pattern in patterns:
            end = states._node(None)
            states.ends.append(end)
            states.starts |= 1 << states._add(pattern, end)
        return states

    def closure(self, nodes: int, before: Beside, next_: Beside) -> int:
        """Return the nodes that these ones reach without a character between two neighbours."""
        found = 0
        for node in members(nodes):
            key = node, before, next_
            if key not in self._closures:
                self._closures[key] = self._reached(node, before, next_)
            found |= self._closures[key]
        return found

    def _reached(self, start: int, before: Beside, next_: Beside) -> int:
        found, waiting = 1 << start, [start]
        is_boundary = (before == Beside.WORD) != (next_ == Beside.WORD)
        holds = {
            None: True,
            Assertion.BEGIN: before == Beside.NONE,
            Assertion.END: next_ == Beside.NONE,
            Assertion.BOUNDARY: is_boundary,
            Assertion.NO_BOUNDARY: not is_boundary,
        }
        while waiting:
            for assertion, target in self.edges[waiting.pop()]:
                if holds[assertion] and not found >> target & 1:
                    found |= 1 << target
                    waiting.append(target)
        return found

    def _node(self, characters: int | None, after: int = 0) -> int:
        if len(self.characters) == NODES_MAX:
            raise TooLargeError
        self.characters.append(characters)
        self.after.append(after)
        self.edges.append([])
        return len(self.characters) - 1

    def _fork(self, *edges: tuple[Assertion | None, int]) -> int:
        node = self._node(None)
        self.edges[node].extend(edges)
        return node

    def _add(self, pattern: AsciiPattern, end: int) -> int:
        """Add a pattern that leads to the node `end`, and return its first node."""
        match pattern:
            case Assertion():
                return self._fork((pattern, end))
            case Characters(bits):
                return self._node(bits, end)
            case InTurn(parts):
                for part in reversed(parts):
                    end = self._add(part, end)
                return end
            case AnyOf(parts):
                return self._fork(*[(None, self._add(part, end)) for part in parts])
            case Repeated(part, least, most):
                return self._add_repeated(part, least, most, end)

    def _add_repeated(self, part: AsciiPattern, least: int, most: int | None, end: int) -> int:
        if most is None:
            loop = self._fork((None, end))
            self.edges[loop].append((None, self._add(part, loop)))
            end = loop
        else:
            last = end
            for _ in range(most - least):
                end = self._fork((None, last), (None, self._add(part, end)))
        for _ in range(least):
            end = self._add(part, end)
        return end


def members(nodes: int) -> Iterator[int]:
    """Yield the nodes of a set."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest
