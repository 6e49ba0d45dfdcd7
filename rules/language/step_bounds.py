"""The step bounds of operators, in the form that each takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lark import Token

from ..model.formula import BOUNDED, PAST, STEPPED, Op
from .expression_limits import BOUND_MAX, bound_problem
from .syntax import SyntaxNode, span, tokens

if TYPE_CHECKING:
    from .formula_builder import FormulaBuilder


def build_bounds(
    builder: FormulaBuilder, op: Op, word: Token, node: SyntaxNode | None
) -> tuple[int, int] | None:
    """Return the step bounds of an operator, in the form that it takes."""
    if node is None:
        if op is Op.AT_MOST:
            hint = "write the count in brackets, `at_most[2] p`"
            builder.report("TRL110", "`at_most` requires a count", hint, word)
            return 0, 0
        return None
    numbers = [_number(builder, token) for token in tokens(node)]
    if op in BOUNDED:
        return _window(builder, word, node, numbers)
    if op in STEPPED or op is Op.AT_MOST:
        if len(numbers) != 1:
            hint = f"write `{word}[{numbers[-1]}]`"
            builder.report("TRL110", f"`{word}` takes one number", hint, node)
        return (numbers[0], numbers[0]) if op in STEPPED else (0, numbers[0])
    bounded = "once" if op in PAST else "eventually"
    hint = f"add a bounded operator: `(p {word} q) and {bounded}[0,3] q`"
    builder.report("TRL112", f"`{word}` takes no step bounds", hint, node)
    return None


def _window(builder: FormulaBuilder, word: Token, node: SyntaxNode, numbers: list[int]) -> tuple[int, int]:
    if len(numbers) != 2:
        n = numbers[0]
        hint = f"write `{word}[0,{n}]` for within {n} steps, `{word}[{n},{n}]` for exactly {n}"
        builder.report("TRL110", f"`{word}` takes two bounds, from and to", hint, node)
        return 0, numbers[0]
    low, high = numbers
    if low > high:
        message = f"the lower bound {low} is greater than the upper bound {high}"
        builder.report("TRL111", message, f"write `{word}[{high},{low}]`", node)
    return low, high


def _number(builder: FormulaBuilder, token: Token) -> int:
    digits = token.lstrip("0") or "0"
    if len(digits) <= len(str(BOUND_MAX)) and int(digits) <= BOUND_MAX:
        return int(digits)
    builder.problems.append(bound_problem(builder.snippet, *span(token)))
    return BOUND_MAX
