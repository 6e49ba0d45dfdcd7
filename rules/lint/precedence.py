"""Warnings about formulas whose precedence may surprise."""

from __future__ import annotations

from ..language.syntax import SyntaxNode, nodes, parse_tree, span, tokens
from ..model.formula import Op
from ..model.keywords import SPELLINGS
from ..model.problem import Problem, RuleError, Snippet


def precedence_warnings(snippet: Snippet) -> tuple[Problem, ...]:
    """Return the warnings about a formula's text, left to right; text that is not a formula has none.

    They report a unary temporal operator left of a binary temporal one (`always p until q`), and `always`
    left of an arrow (`always p -> q`), without parentheses.
    """
    try:
        tree = parse_tree(snippet, "formula")
    except RuleError:
        return ()
    found = [_warning(snippet, node) for node in tree.iter_subtrees() if _surprises(node)]
    return tuple(sorted(found, key=lambda problem: problem.location.start if problem.location else 0))


def _surprises(node: SyntaxNode) -> bool:
    """Return whether the left operand of a node is a unary operator that seems to cover both."""
    if node.data not in ("binary", "implies", "iff"):
        return False
    unary = _under_not(nodes(node)[0])
    return unary.data == "unary" and (node.data == "binary" or SPELLINGS[tokens(unary)[0]] is Op.ALWAYS)


def _warning(snippet: Snippet, node: SyntaxNode) -> Problem:
    """Return the warning with the formula in both readings."""
    left, right = nodes(node)[0], nodes(node)[1 if node.data == "iff" else -1]
    unary = _under_not(left)
    operator = tokens(node)[0]
    start, end = span(left)[0], span(right)[1]
    inner = span(nodes(unary)[-1])[0]
    parsed = _one_line(f"({snippet.text[start : span(left)[1]]}) {snippet.text[span(operator)[0] : end]}")
    alternative = _one_line(f"{snippet.text[start:inner].strip()} ({snippet.text[inner:end]})")
    message = f"`{tokens(unary)[0]}` binds tighter than `{operator}`: the formula parses as `{parsed}`"
    return snippet.problem("TRL508", message, f"add these parentheses, or write `{alternative}`", start, end)


def _under_not(node: SyntaxNode) -> SyntaxNode:
    """Return the operand under any number of `not`."""
    while node.data == "not":
        (node,) = nodes(node)
    return node


def _one_line(text: str) -> str:
    return " ".join(text.split())
