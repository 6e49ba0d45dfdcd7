"""Parsers of formulas, predicates, paths and names."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..model.formula import Formula
from ..model.keywords import NAME, RESERVED
from ..model.predicate import Path, Predicate
from ..model.problem import RuleError, Snippet
from .formula_builder import FormulaBuilder
from .operator_calls import Operator
from .predicate_builder import build_path, build_predicate
from .syntax import parse_tree


def parse_formula(
    text: str,
    *,
    source: str = "<formula>",
    line: int = 1,
    column: int = 1,
    operators: Mapping[str, Operator] | None = None,
    known: Collection[str] | None = None,
) -> Formula:
    """Parse a formula and expand its calls of `operators`.

    The text begins at `line` and `column` (from 1) of `source`. With `known`, any other proposition is a
    problem. Raises RuleError with every problem found.
    """
    snippet = Snippet(text, source, line, column)
    builder = FormulaBuilder(snippet, operators or {}, known)
    formula = builder.formula(parse_tree(snippet, "formula"))
    if builder.problems:
        raise RuleError(builder.problems)
    return formula


def parse_predicate(text: str) -> Predicate:
    """Parse a predicate and check its regular expressions. Raises RuleError with every problem found."""
    snippet = Snippet(text)
    return build_predicate(snippet, parse_tree(snippet, "predicate"))


def parse_path(text: str) -> Path:
    """Parse a path, such as `args.order_id` or `attributes["tenant"]`. Raises RuleError."""
    snippet = Snippet(text)
    return build_path(snippet, parse_tree(snippet, "path"))


def parse_name(text: str) -> str:
    """Check the name of a proposition, transition or operator. Raises RuleError."""
    snippet = Snippet(text)
    if text in RESERVED:
        from .errors.reserved_words import reserved_word_problem

        raise RuleError([reserved_word_problem(snippet, text, 0, len(text))])
    if not NAME.fullmatch(text):
        hint = "start with a letter or _, then use letters, digits and _, such as `large_refund`"
        raise RuleError([snippet.problem("TRL108", f"invalid name `{text}`", hint, 0, len(text))])
    return text
