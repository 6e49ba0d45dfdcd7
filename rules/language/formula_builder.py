"""Building of formulas from syntax trees."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from lark import Token

from ..model.formula import FUTURE, PAST, TRUE, Formula, prop
from ..model.keywords import SPELLINGS
from ..model.problem import Problem, Snippet, did_you_mean
from .expression_limits import DEPTH_MAX, NODES_MAX, depth_problem, size_problem
from .future_in_past import BuiltFormula, FutureUse, past_operand
from .operator_calls import Operator, build_call
from .step_bounds import build_bounds
from .syntax import SyntaxNode, nodes, span, tokens


@dataclass
class FormulaBuilder:
    """One pass over a syntax tree that collects every problem in `problems`.

    The formula may call `operators`; with `known`, it may name no other proposition.
    """

    snippet: Snippet
    operators: Mapping[str, Operator]
    known: Collection[str] | None = None
    problems: list[Problem] = field(default_factory=list[Problem])

    def formula(self, tree: SyntaxNode) -> Formula:
        """Return the formula of a whole tree; it is invalid if `problems` is not empty."""
        (top,) = nodes(tree)
        return self.build(top).formula

    def build(self, node: SyntaxNode) -> BuiltFormula:
        """Build the formula of a node; if that has a problem, one with which the pass can go on."""
        while node.data == "group":
            (node,) = nodes(node)
        match str(node.data):
            case "proposition":
                return self._build_proposition(tokens(node)[0])
            case "truth":
                return BuiltFormula(Formula(SPELLINGS[tokens(node)[0]]))
            case "call":
                return build_call(self, node)
            case "unary" | "binary" | "not":
                return self._build_operator(node)
            case _:
                return self._build_chain(node)

    def report(self, code: str, message: str, hint: str, at: SyntaxNode | Token | FutureUse) -> None:
        """Add a problem with a node, a token or a future operator."""
        start, end = (at.start, at.end) if isinstance(at, FutureUse) else span(at)
        self.problems.append(self.snippet.problem(code, message, hint, start, end))

    def _build_proposition(self, token: Token) -> BuiltFormula:
        name = str(token)
        if name in self.operators:
            hint = f"write `{self.operators[name].head}` with a formula for each parameter"
            self.report("TRL122", f"operator `{name}` has no operands", hint, token)
        elif self.known is not None and name not in self.known:
            hint = did_you_mean(name, self.known)
            self.report("TRL120", f"unknown proposition `{name}`", hint, token)
        return BuiltFormula(prop(name))

    def _build_chain(self, node: SyntaxNode) -> BuiltFormula:
        """Build a chain: `and`, `or` and `<->` associate to the left; the grammar pairs `->` to the right."""
        op = SPELLINGS[tokens(node)[0]]
        parts = [self.build(child) for child in nodes(node)]
        return reduce(lambda left, right: self._join(node, Formula(op), (left, right)), parts)

    def _build_operator(self, node: SyntaxNode) -> BuiltFormula:
        """Build a unary operator or a binary temporal one."""
        word = tokens(node)[0]
        op = SPELLINGS[word]
        written = [child for child in nodes(node) if child.data == "bounds"]
        operands = [child for child in nodes(node) if child.data != "bounds"]
        head = Formula(op, bounds=build_bounds(self, op, word, written[0] if written else None))
        parts = tuple(self.build(operand) for operand in operands)
        if op in PAST:
            parts = tuple(past_operand(self, str(word), part) for part in parts)
        whole = self._join(node, head, parts)
        return replace(whole, ahead=FutureUse(*span(word), str(word))) if op in FUTURE else whole

    def _join(self, node: SyntaxNode, head: Formula, parts: Sequence[BuiltFormula]) -> BuiltFormula:
        """Apply an operator to its operands, unless the result is too deep or too large."""
        whole = BuiltFormula(
            replace(head, args=tuple(part.formula for part in parts)),
            1 + max(part.depth for part in parts),
            1 + sum(part.size for part in parts),
            next((part.ahead for part in parts if part.ahead), None),
        )
        return BuiltFormula(TRUE) if self.too_large(node, whole) else whole

    def too_large(self, node: SyntaxNode, part: BuiltFormula) -> bool:
        """Return whether a part exceeds a limit; report the problem if it does."""
        if part.depth > DEPTH_MAX:
            self.problems.append(depth_problem(self.snippet, *span(node)))
        elif part.size > NODES_MAX:
            self.problems.append(size_problem(self.snippet, *span(node)))
        else:
            return False
        return True
