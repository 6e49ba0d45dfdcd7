"""From text to syntax tree: the grammar, the limits on a text, and places in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

from lark import Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from ..model.problem import Problem, RuleError, Snippet
from .lalr_table import load_parser, table_text

TEXT_CHARS_MAX = 65_536
"""Characters of one expression."""

DEPTH_MAX = 100
"""Levels of one formula or predicate, expansions of operators included; each `and` of a chain is one."""

GRAMMAR_FILE = Path(__file__).with_name("grammar.lark")
TABLE_FILE = Path(__file__).with_name("grammar.json")
"""The grammar, and the parse table that was made of it (`table.py`)."""

EXAMPLES = {
    "formula": "write a formula, such as `always (request -> eventually reply)`",
    "predicate": 'write a question about one event, such as `kind == "user"`',
    "path": "write a field, such as `tool` or `args.order_id`",
    "head": "write a name and its parameters, such as `happened_before(p, q)`",
}
"""The start symbols of the grammar, and what each wants, as a hint."""

SyntaxNode = Tree[Token]
"""A node of the syntax tree: `data` names its rule in the grammar, `children` are nodes and tokens."""


def parse_tree(snippet: Snippet, start: str) -> SyntaxNode:
    """The syntax tree of the snippet as a `start` of the grammar (`formula`, `predicate`, `path`, `head`).

    Raises RuleError where the text is empty, too long, too deep or not in the language.
    """
    text = snippet.text
    if not text.strip():
        raise RuleError([snippet.problem("TRL101", "nothing is written here", EXAMPLES[start], 0, 0)])
    if len(text) > TEXT_CHARS_MAX:
        message = f"{len(text)} characters are more than the {TEXT_CHARS_MAX} that one expression may have"
        hint = "split it: name its parts as propositions or operators"
        raise RuleError([Problem("TRL150", message, hint, snippet.location(0, 0))])
    try:
        tree = _grammar().parse(text, start=start)
    except UnexpectedInput as error:
        from .diagnose import diagnose  # as long as nothing is wrong, nobody waits for it

        raise RuleError([diagnose(snippet, start, _offset_of(error))]) from None
    deep = _node_too_deep(tree)
    if deep is not None:
        raise RuleError([depth_problem(snippet, *span(deep))])
    return tree


def depth_problem(snippet: Snippet, start: int, end: int) -> Problem:
    """The problem of an expression with more than `DEPTH_MAX` levels."""
    message = f"more than {DEPTH_MAX} levels deep"
    hint = "write bounds for repeated operators (`next[5] p`), or name parts as propositions"
    return snippet.problem("TRL151", message, hint, start, end)


def span(node: SyntaxNode | Token) -> tuple[int, int]:
    """The start and end of a node or token in its text."""
    if isinstance(node, Token):
        return node.start_pos or 0, node.end_pos or 0
    return node.meta.start_pos, node.meta.end_pos


def nodes(node: SyntaxNode) -> list[SyntaxNode]:
    """The children of a node that are nodes."""
    return [child for child in node.children if not isinstance(child, Token)]


def tokens(node: SyntaxNode) -> list[Token]:
    """The children of a node that are tokens."""
    return [child for child in node.children if isinstance(child, Token)]


@cache
def _grammar() -> Any:
    """The parser of every start symbol."""
    return load_parser(TABLE_FILE.read_text("utf-8"), GRAMMAR_FILE.read_text("utf-8"), tuple(EXAMPLES))


def table() -> str:
    """Return what `TABLE_FILE` should hold."""
    return table_text(GRAMMAR_FILE.read_text("utf-8"), tuple(EXAMPLES))


def _node_too_deep(tree: SyntaxNode) -> SyntaxNode | None:
    """An operator with `DEPTH_MAX` others above it, if there is one; parentheses do not count."""
    todo = [(tree, 0)]
    while todo:
        node, above = todo.pop()
        if above > DEPTH_MAX + 1:  # the root of the tree and a proposition are no operators
            return node
        todo.extend((child, above + (node.data != "group")) for child in nodes(node))
    return None


def _offset_of(error: Any) -> int | None:
    """Return where the grammar stopped; None at the end of the text."""
    if isinstance(error, UnexpectedToken) and cast(Any, error).token.type == "$END":
        return None
    return int(cast(Any, error).pos_in_stream)
