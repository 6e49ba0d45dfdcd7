"""Formulas in the making, and the check that no past operator has a future one inside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..model.formula import FUTURE, PAST, TRUE, Formula, has_future, walk
from ..model.printer import to_text
from .syntax import SyntaxNode, span

if TYPE_CHECKING:
    from .formula_builder import FormulaBuilder

_SHOWN_CHARS_MAX = 200
"""Characters of an expansion that an error shows."""


@dataclass(frozen=True, slots=True)
class FutureUse:
    """The first future operator of a formula; of a call, with its expansion."""

    start: int
    end: int
    word: str
    expansion: str = ""


@dataclass(frozen=True, slots=True)
class BuiltFormula:
    """A formula being built, with its depth, its size and its first future operator."""

    formula: Formula
    depth: int = 0
    size: int = 1
    ahead: FutureUse | None = None


def past_operand(builder: FormulaBuilder, word: str, part: BuiltFormula) -> BuiltFormula:
    """Check that the operand of a past operator has no future operator."""
    ahead = part.ahead
    if ahead is None:
        return part
    expansion = f" ({ahead.expansion})" if ahead.expansion else ""
    message = f"future operator `{ahead.word}`{expansion} inside the past operator `{word}`"
    hint = "a past operator may be inside a future one, not around it: `always (reply -> once request)`"
    builder.report("TRL125", message, hint, ahead)
    return replace(part, ahead=None)


def without_future_in_past(
    builder: FormulaBuilder, node: SyntaxNode, name: str, whole: BuiltFormula
) -> BuiltFormula:
    """Return the expansion of a call, unless the call puts a future operator inside a past one."""
    if not has_future(whole.formula):
        return whole
    start, end = span(node)
    call = builder.snippet.text[start:end]
    expansion = f"`{_short(call)}` expands to `{_short(to_text(whole.formula))}`"
    hidden = _future_in_past(whole.formula)
    if hidden is None:
        return replace(whole, ahead=FutureUse(start, end, name, expansion))
    outer, inner = hidden
    message = f"{expansion}: future operator `{inner.op.value}` inside the past operator `{outer.op.value}`"
    hint = f"call `{name}` with operands that have no future operators"
    builder.report("TRL125", message, hint, node)
    return BuiltFormula(TRUE)


def _future_in_past(formula: Formula) -> tuple[Formula, Formula] | None:
    """Return a past operator and a future operator inside it, if there is such a pair."""
    for node in walk(formula):
        if node.op in PAST:
            for inner in walk(node):
                if inner.op in FUTURE:
                    return node, inner
    return None


def _short(text: str) -> str:
    """Return the text on one line, cut to the length that an error shows."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]} ..."
