"""From text to syntax tree: the grammar, the limits on a text, and places in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from .error import Place, Problem, RuleError, place_in

TEXT_CHARS_MAX = 65_536
"""Characters of one expression."""

DEPTH_MAX = 100
"""Levels of one formula or predicate, expansions of operators included; each `and` of a chain is one."""

Node = Tree[Token]
"""A node of the syntax tree: `data` names its rule in the grammar, `children` are nodes and tokens."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """One expression and where it begins in its file (`line` and `column` from 1)."""

    text: str
    source: str = "<formula>"
    line: int = 1
    column: int = 1

    def place(self, start: int, end: int) -> Place:
        """The place of `text[start:end]`."""
        return place_in(self.text, start, end, source=self.source, line=self.line, column=self.column)

    def problem(self, code: str, message: str, hint: str, start: int, end: int) -> Problem:
        """A problem with `text[start:end]`."""
        return Problem(code, message, hint, self.place(start, end))


def read(snippet: Snippet, start: str) -> Node:
    """The syntax tree of the snippet as a `start` of the grammar (`formula`, `predicate`, `path`, `head`).

    Raises RuleError where the text is empty, too long, too deep or not in the language.
    """
    text = snippet.text
    if not text.strip():
        raise RuleError([snippet.problem("TRL101", "nothing is written here", _EXAMPLES[start], 0, 0)])
    if len(text) > TEXT_CHARS_MAX:
        message = f"{len(text)} characters are more than the {TEXT_CHARS_MAX} that one expression may have"
        hint = "split it: name its parts as propositions or operators"
        raise RuleError([Problem("TRL150", message, hint, snippet.place(0, 0))])
    try:
        tree = _grammar().parse(text, start=start)
    except UnexpectedInput as refusal:
        raise RuleError([_problem(snippet, start, refusal)]) from None
    deep = _too_deep(tree)
    if deep is not None:
        raise RuleError([too_deep(snippet, *span(deep))])
    return tree


def too_deep(snippet: Snippet, start: int, end: int) -> Problem:
    """The problem of an expression with more than `DEPTH_MAX` levels."""
    message = f"more than {DEPTH_MAX} levels deep"
    hint = "write bounds for repeated operators (`next[5] p`), or name parts as propositions"
    return snippet.problem("TRL151", message, hint, start, end)


def reserved(snippet: Snippet, word: str, start: int, end: int) -> Problem:
    """The problem of a word of the language that stands as a name."""
    hint = f"give it another name, such as `{word.lower()}_event`"
    return snippet.problem(
        "TRL113", f"`{word}` is a word of the language and names nothing else", hint, start, end
    )


def span(node: Node | Token) -> tuple[int, int]:
    """The start and end of a node or token in its text."""
    if isinstance(node, Token):
        return node.start_pos or 0, node.end_pos or 0
    return node.meta.start_pos, node.meta.end_pos


def nodes(node: Node) -> list[Node]:
    """The children of a node that are nodes."""
    return [child for child in node.children if not isinstance(child, Token)]


def tokens(node: Node) -> list[Token]:
    """The children of a node that are tokens."""
    return [child for child in node.children if isinstance(child, Token)]


@cache
def _grammar() -> Any:
    """The parser of every start symbol; made once, in about 50 ms."""
    return Lark(
        files(__package__ or "").joinpath("grammar.lark").read_text("utf-8"),
        parser="lalr",
        start=list(_EXAMPLES),
        propagate_positions=True,
        maybe_placeholders=False,
    )


_EXAMPLES = {
    "formula": "write a formula, such as `always (request -> eventually reply)`",
    "predicate": 'write a question about one event, such as `kind == "user"`',
    "path": "write a field, such as `tool` or `args.order_id`",
    "head": "write a name and parameters, such as `happened_before(p, q)`",
}


def _too_deep(tree: Node) -> Node | None:
    """A node more than `DEPTH_MAX` levels down, if there is one; parentheses are a level. Not recursive."""
    todo = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > DEPTH_MAX:
            return node
        todo.extend((child, depth + 1) for child in nodes(node))
    return None


def _problem(snippet: Snippet, start: str, refusal: UnexpectedInput) -> Problem:
    """Why the grammar refused the text."""
    at = refusal.pos_in_stream or 0
    if at < 0 or (isinstance(refusal, UnexpectedToken) and _is_end(refusal)):
        at = len(snippet.text.rstrip())
    end = at + 1
    return snippet.problem("TRL109", "this does not follow the grammar", _EXAMPLES[start], at, end)


def _is_end(refusal: Any) -> bool:
    return refusal.token.type == "$END"
