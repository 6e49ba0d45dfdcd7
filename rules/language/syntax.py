"""Parsing of text into a syntax tree, within the limits on the text's length and depth."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

from lark import Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from ..model.problem import RuleError, Snippet
from .errors.rejected_text import EXAMPLES
from .expression_limits import DEPTH_MAX, depth_problem, text_problem
from .lalr_table import load_parser, table_text

GRAMMAR_FILE = Path(__file__).with_name("grammar.lark")
TABLE_FILE = Path(__file__).with_name("grammar.json")
"""The grammar, and its parse table (`lalr_table.py`)."""

SyntaxNode = Tree[Token]
"""A node of the syntax tree: `data` is its rule in the grammar, `children` are nodes and tokens."""


def parse_tree(snippet: Snippet, start: str) -> SyntaxNode:
    """Parse the snippet with a start symbol of the grammar (`formula`, `predicate`, `path`, `head`).

    Raises RuleError if the text is empty, too long, too deep or not in the language.
    """
    text = snippet.text
    if not text.strip():
        from .errors.syntax_errors import empty_expression

        raise RuleError([empty_expression(snippet, start)])
    if (too_long := text_problem(snippet)) is not None:
        raise RuleError([too_long])
    try:
        tree = _grammar().parse(text, start=start)
    except UnexpectedInput as error:
        from .errors.syntax_errors import diagnose  # loaded for errors only: a valid text does not pay for it

        raise RuleError([diagnose(snippet, start, _offset_of(error))]) from None
    deep = _node_too_deep(tree)
    if deep is not None:
        raise RuleError([depth_problem(snippet, *span(deep))])
    return tree


def span(node: SyntaxNode | Token) -> tuple[int, int]:
    """Return the start and end of a node or token in its text."""
    if isinstance(node, Token):
        return node.start_pos or 0, node.end_pos or 0
    return node.meta.start_pos, node.meta.end_pos


def nodes(node: SyntaxNode) -> list[SyntaxNode]:
    """Return the children of a node that are nodes."""
    return [child for child in node.children if not isinstance(child, Token)]


def tokens(node: SyntaxNode) -> list[Token]:
    """Return the children of a node that are tokens."""
    return [child for child in node.children if isinstance(child, Token)]


@cache
def _grammar() -> Any:
    """Return the parser of every start symbol."""
    return load_parser(TABLE_FILE.read_text("utf-8"), GRAMMAR_FILE.read_text("utf-8"), tuple(EXAMPLES))


def table() -> str:
    """Return the content of `TABLE_FILE` for the current grammar."""
    return table_text(GRAMMAR_FILE.read_text("utf-8"), tuple(EXAMPLES))


def _node_too_deep(tree: SyntaxNode) -> SyntaxNode | None:
    """Return an operator more than `DEPTH_MAX` levels deep, if any; parentheses do not count."""
    todo = [(tree, 0)]
    while todo:
        node, above = todo.pop()
        if above > DEPTH_MAX + 1:  # the root of the tree and a proposition are not operators
            return node
        todo.extend((child, above + (node.data != "group")) for child in nodes(node))
    return None


def _offset_of(error: Any) -> int | None:
    """Return the offset at which the parser failed; None at the end of the text."""
    if isinstance(error, UnexpectedToken) and cast(Any, error).token.type == "$END":
        return None
    return int(cast(Any, error).pos_in_stream)
