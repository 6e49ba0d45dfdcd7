"""Calls of user-defined operators, which are expanded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..model.formula import TRUE, Formula, Op
from ..model.keywords import RESERVED
from ..model.problem import counted, did_you_mean
from .errors.foreign_syntax import keyword_for
from .future_in_past import BuiltFormula, without_future_in_past
from .syntax import SyntaxNode, nodes, tokens

if TYPE_CHECKING:
    from .formula_builder import FormulaBuilder


@dataclass(frozen=True, slots=True)
class Operator:
    """A user-defined operator; in `body` each parameter is a proposition of that name."""

    name: str
    parameters: tuple[str, ...]
    body: Formula

    @property
    def head(self) -> str:
        """Return the operator with its parameters: `happened_before(p, q)`."""
        return f"{self.name}({', '.join(self.parameters)})"


def build_call(builder: FormulaBuilder, node: SyntaxNode) -> BuiltFormula:
    """Expand a call of a user-defined operator."""
    name = tokens(node)[0]
    parts = [builder.build(child) for child in nodes(node)]
    operator = builder.operators.get(name)
    if operator is None:
        builder.report("TRL121", f"unknown operator `{name}`", _operator_hint(builder, str(name)), name)
        return BuiltFormula(TRUE)
    wanted = len(operator.parameters)
    if len(parts) != wanted:
        message = f"`{name}` takes {counted(wanted, 'operand')}, not {len(parts)}"
        builder.report("TRL122", message, f"write `{operator.head}`", node)
        return BuiltFormula(TRUE)
    values = dict(zip(operator.parameters, parts, strict=True))
    depth, size = _measure(operator.body, values)
    whole = BuiltFormula(operator.body, depth, size)
    if builder.too_large(node, whole):
        return BuiltFormula(TRUE)
    expanded = substitute(operator.body, {key: part.formula for key, part in values.items()})
    return without_future_in_past(builder, node, str(name), replace(whole, formula=expanded))


def _operator_hint(builder: FormulaBuilder, name: str) -> str:
    if builder.known is not None and name in builder.known:
        return f"`{name}` is a proposition: write it alone, or an operator between it and the bracket"
    word = keyword_for(name, RESERVED)
    return f"did you mean `{word}`?" if word else did_you_mean(name, builder.operators)


def substitute(formula: Formula, values: Mapping[str, Formula]) -> Formula:
    """Replace each proposition that `values` names by its value."""
    if formula.op is Op.PROP:
        return values.get(formula.name, formula)
    if not formula.args:
        return formula
    return replace(formula, args=tuple(substitute(arg, values) for arg in formula.args))


def _measure(body: Formula, values: Mapping[str, BuiltFormula]) -> tuple[int, int]:
    """Return the depth and the size of a body with its parameters replaced, without building it."""
    if body.op is Op.PROP:
        part = values.get(body.name)
        return (part.depth, part.size) if part else (0, 1)
    if not body.args:
        return 0, 1
    measures = [_measure(arg, values) for arg in body.args]
    return 1 + max(depth for depth, _ in measures), 1 + sum(size for _, size in measures)
