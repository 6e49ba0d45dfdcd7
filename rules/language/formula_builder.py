"""Building of formulas from syntax trees: step bounds are checked, user-defined operators are expanded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from lark import Token

from ..model.formula import BOUNDED, FUTURE, PAST, STEPPED, TRUE, Formula, Op, has_future, prop, walk
from ..model.keywords import RESERVED, SPELLINGS
from ..model.printer import to_text
from ..model.problem import Problem, Snippet, counted, did_you_mean
from .errors.foreign_syntax import keyword_for
from .expression_limits import BOUND_MAX, DEPTH_MAX, NODES_MAX, bound_problem, depth_problem, size_problem
from .syntax import SyntaxNode, nodes, span, tokens

_SHOWN_CHARS_MAX = 200
"""Characters of an expansion that an error shows."""


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


@dataclass(frozen=True, slots=True)
class _FutureUse:
    """The first future operator of a formula; of a call, with its expansion."""

    start: int
    end: int
    word: str
    expansion: str = ""


@dataclass(frozen=True, slots=True)
class _BuiltFormula:
    """A formula being built, with its depth, its size and its first future operator."""

    formula: Formula
    depth: int = 0
    size: int = 1
    ahead: _FutureUse | None = None


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
        return self._build(top).formula

    def _build(self, node: SyntaxNode) -> _BuiltFormula:
        """Build the formula of a node; if that has a problem, one with which the pass can go on."""
        while node.data == "group":
            (node,) = nodes(node)
        match str(node.data):
            case "proposition":
                return self._build_proposition(tokens(node)[0])
            case "truth":
                return _BuiltFormula(Formula(SPELLINGS[tokens(node)[0]]))
            case "call":
                return self._build_call(node)
            case "unary" | "binary" | "not":
                return self._build_operator(node)
            case _:
                return self._build_chain(node)

    def _report(self, code: str, message: str, hint: str, at: SyntaxNode | Token | _FutureUse) -> None:
        start, end = (at.start, at.end) if isinstance(at, _FutureUse) else span(at)
        self.problems.append(self.snippet.problem(code, message, hint, start, end))

    def _build_proposition(self, token: Token) -> _BuiltFormula:
        name = str(token)
        if name in self.operators:
            hint = f"write `{self.operators[name].head}` with a formula for each parameter"
            self._report("TRL122", f"operator `{name}` has no operands", hint, token)
        elif self.known is not None and name not in self.known:
            hint = did_you_mean(name, self.known)
            self._report("TRL120", f"unknown proposition `{name}`", hint, token)
        return _BuiltFormula(prop(name))

    def _build_chain(self, node: SyntaxNode) -> _BuiltFormula:
        """Build a chain: `and`, `or` and `<->` associate to the left; the grammar pairs `->` to the right."""
        op = SPELLINGS[tokens(node)[0]]
        parts = [self._build(child) for child in nodes(node)]
        return reduce(lambda left, right: self._join(node, Formula(op), (left, right)), parts)

    def _build_operator(self, node: SyntaxNode) -> _BuiltFormula:
        """Build a unary operator or a binary temporal one."""
        word = tokens(node)[0]
        op = SPELLINGS[word]
        written = [child for child in nodes(node) if child.data == "bounds"]
        operands = [child for child in nodes(node) if child.data != "bounds"]
        head = Formula(op, bounds=self._bounds(op, word, written[0] if written else None))
        parts = tuple(self._build(operand) for operand in operands)
        if op in PAST:
            parts = tuple(self._past_operand(str(word), part) for part in parts)
        whole = self._join(node, head, parts)
        return replace(whole, ahead=_FutureUse(*span(word), str(word))) if op in FUTURE else whole

    def _past_operand(self, word: str, part: _BuiltFormula) -> _BuiltFormula:
        """Check that the operand of a past operator has no future operator."""
        ahead = part.ahead
        if ahead is None:
            return part
        expansion = f" ({ahead.expansion})" if ahead.expansion else ""
        message = f"future operator `{ahead.word}`{expansion} inside the past operator `{word}`"
        hint = "a past operator may be inside a future one, not around it: `always (reply -> once request)`"
        self._report("TRL125", message, hint, ahead)
        return replace(part, ahead=None)

    def _build_call(self, node: SyntaxNode) -> _BuiltFormula:
        """Expand a call of a user-defined operator."""
        name = tokens(node)[0]
        parts = [self._build(child) for child in nodes(node)]
        operator = self.operators.get(name)
        if operator is None:
            self._report("TRL121", f"unknown operator `{name}`", self._operator_hint(str(name)), name)
            return _BuiltFormula(TRUE)
        wanted = len(operator.parameters)
        if len(parts) != wanted:
            message = f"`{name}` takes {counted(wanted, 'operand')}, not {len(parts)}"
            self._report("TRL122", message, f"write `{operator.head}`", node)
            return _BuiltFormula(TRUE)
        values = dict(zip(operator.parameters, parts, strict=True))
        depth, size = _measure(operator.body, values)
        whole = _BuiltFormula(operator.body, depth, size)
        if self._too_large(node, whole):
            return _BuiltFormula(TRUE)
        expanded = substitute(operator.body, {key: part.formula for key, part in values.items()})
        return self._expanded(node, str(name), replace(whole, formula=expanded))

    def _expanded(self, node: SyntaxNode, name: str, whole: _BuiltFormula) -> _BuiltFormula:
        """Return the expansion of a call, unless the call puts a future operator inside a past one."""
        if not has_future(whole.formula):
            return whole
        start, end = span(node)
        call = self.snippet.text[start:end]
        expansion = f"`{_short(call)}` expands to `{_short(to_text(whole.formula))}`"
        hidden = _future_in_past(whole.formula)
        if hidden is None:
            return replace(whole, ahead=_FutureUse(start, end, name, expansion))
        outer, inner = hidden
        message = (
            f"{expansion}: future operator `{inner.op.value}` inside the past operator `{outer.op.value}`"
        )
        hint = f"call `{name}` with operands that have no future operators"
        self._report("TRL125", message, hint, node)
        return _BuiltFormula(TRUE)

    def _operator_hint(self, name: str) -> str:
        if self.known is not None and name in self.known:
            return f"`{name}` is a proposition: write it alone, or an operator between it and the bracket"
        word = keyword_for(name, RESERVED)
        return f"did you mean `{word}`?" if word else did_you_mean(name, self.operators)

    def _join(self, node: SyntaxNode, head: Formula, parts: Sequence[_BuiltFormula]) -> _BuiltFormula:
        """Apply an operator to its operands, unless the result is too deep or too large."""
        whole = _BuiltFormula(
            replace(head, args=tuple(part.formula for part in parts)),
            1 + max(part.depth for part in parts),
            1 + sum(part.size for part in parts),
            next((part.ahead for part in parts if part.ahead), None),
        )
        return _BuiltFormula(TRUE) if self._too_large(node, whole) else whole

    def _too_large(self, node: SyntaxNode, part: _BuiltFormula) -> bool:
        if part.depth > DEPTH_MAX:
            self.problems.append(depth_problem(self.snippet, *span(node)))
        elif part.size > NODES_MAX:
            self.problems.append(size_problem(self.snippet, *span(node)))
        else:
            return False
        return True

    def _bounds(self, op: Op, word: Token, node: SyntaxNode | None) -> tuple[int, int] | None:
        """Return the step bounds of an operator, in the form that it takes."""
        if node is None:
            if op is Op.AT_MOST:
                hint = "write the count in brackets, `at_most[2] p`"
                self._report("TRL110", "`at_most` requires a count", hint, word)
                return 0, 0
            return None
        numbers = [self._number(token) for token in tokens(node)]
        if op in BOUNDED:
            return self._window(word, node, numbers)
        if op in STEPPED or op is Op.AT_MOST:
            if len(numbers) != 1:
                hint = f"write `{word}[{numbers[-1]}]`"
                self._report("TRL110", f"`{word}` takes one number", hint, node)
            return (numbers[0], numbers[0]) if op in STEPPED else (0, numbers[0])
        bounded = "once" if op in PAST else "eventually"
        hint = f"add a bounded operator: `(p {word} q) and {bounded}[0,3] q`"
        self._report("TRL112", f"`{word}` takes no step bounds", hint, node)
        return None

    def _window(self, word: Token, node: SyntaxNode, numbers: list[int]) -> tuple[int, int]:
        if len(numbers) != 2:
            n = numbers[0]
            hint = f"write `{word}[0,{n}]` for within {n} steps, `{word}[{n},{n}]` for exactly {n}"
            self._report("TRL110", f"`{word}` takes two bounds, from and to", hint, node)
            return 0, numbers[0]
        low, high = numbers
        if low > high:
            message = f"the lower bound {low} is greater than the upper bound {high}"
            self._report("TRL111", message, f"write `{word}[{high},{low}]`", node)
        return low, high

    def _number(self, token: Token) -> int:
        digits = token.lstrip("0") or "0"
        if len(digits) <= len(str(BOUND_MAX)) and int(digits) <= BOUND_MAX:
            return int(digits)
        self.problems.append(bound_problem(self.snippet, *span(token)))
        return BOUND_MAX


def substitute(formula: Formula, values: Mapping[str, Formula]) -> Formula:
    """Replace each proposition that `values` names by its value."""
    if formula.op is Op.PROP:
        return values.get(formula.name, formula)
    if not formula.args:
        return formula
    return replace(formula, args=tuple(substitute(arg, values) for arg in formula.args))


def _measure(body: Formula, values: Mapping[str, _BuiltFormula]) -> tuple[int, int]:
    """Return the depth and the size of a body with its parameters replaced, without building it."""
    if body.op is Op.PROP:
        part = values.get(body.name)
        return (part.depth, part.size) if part else (0, 1)
    if not body.args:
        return 0, 1
    measures = [_measure(arg, values) for arg in body.args]
    return 1 + max(depth for depth, _ in measures), 1 + sum(size for _, size in measures)


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
