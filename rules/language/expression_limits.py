"""The limits on an expression: its length and depth, its numbers, and its size after expanding operators."""

from __future__ import annotations

from ..model.problem import Problem, Snippet

TEXT_CHARS_MAX = 65_536
"""Characters of one expression."""
DEPTH_MAX = 100
"""Levels of one formula or predicate after expanding operators; each `and` of a chain is one."""
BOUND_MAX = 1_000
"""The greatest step bound, and the greatest count of `at_most`."""
NODES_MAX = 10_000
"""Nodes of one formula after expanding operators."""


def text_problem(snippet: Snippet) -> Problem | None:
    """Return the problem of an expression with more than `TEXT_CHARS_MAX` characters; None for others."""
    if len(snippet.text) <= TEXT_CHARS_MAX:
        return None
    message = f"the expression has {len(snippet.text)} characters, more than {TEXT_CHARS_MAX}"
    hint = "split it: define its parts as propositions or operators"
    return Problem("TRL150", message, hint, snippet.location(0, 0))


def depth_problem(snippet: Snippet, start: int, end: int) -> Problem:
    """Return the problem of an expression with more than `DEPTH_MAX` levels."""
    message = f"the expression nests more than {DEPTH_MAX} levels deep"
    hint = "write bounds for repeated operators (`next[5] p`), or define parts as propositions"
    return snippet.problem("TRL151", message, hint, start, end)


def bound_problem(snippet: Snippet, start: int, end: int) -> Problem:
    """Return the problem of a number above `BOUND_MAX`."""
    hint = f"write at most {BOUND_MAX}, or leave the bounds out"
    return snippet.problem("TRL152", f"the number is greater than {BOUND_MAX}", hint, start, end)


def size_problem(snippet: Snippet, start: int, end: int) -> Problem:
    """Return the problem of a formula with more than `NODES_MAX` nodes."""
    message = f"the formula has more than {NODES_MAX} nodes after expanding operators"
    hint = "use a parameter fewer times in an operator's body, or split the rule"
    return snippet.problem("TRL153", message, hint, start, end)
