"""Building of predicates and paths from syntax trees: fields, tests and literals are checked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from lark import Token

from ..model.fields import EventField, FieldType
from ..model.predicate import ELEMENT, And, Leaf, Literal, Not, Or, Path, Predicate, Scalar, Test
from ..model.predicate_limits import size_problems
from ..model.problem import Problem, RuleError, Snippet
from .list_builder import FLIPPED, build_contained, build_measured, build_quantified
from .literal_builder import ORDER, SEARCH, build_value
from .path_builder import check_scope, compared_path, read_path
from .syntax import SyntaxNode, nodes, span, tokens


def build_predicate(snippet: Snippet, tree: SyntaxNode) -> Predicate:
    """Build the predicate of a tree. Raises RuleError with every problem found."""
    builder = PredicateBuilder(snippet)
    (top,) = nodes(tree)
    predicate = builder.predicate(top)
    builder.problems += [
        replace(problem, location=snippet.location(*span(top))) for problem in size_problems(predicate)
    ]
    if builder.problems:
        raise RuleError(builder.problems)
    return predicate


def build_path(snippet: Snippet, tree: SyntaxNode) -> Path:
    """Build the path of a tree. Raises RuleError if there is no such field or step."""
    builder = PredicateBuilder(snippet)
    path, _ = read_path(builder, tree)
    if builder.problems:
        raise RuleError(builder.problems)
    return path


@dataclass
class PredicateBuilder:
    """One pass over a syntax tree that collects every problem in `problems`.

    `lists` has the texts of the lists about whose elements the current condition is, the innermost last.
    """

    snippet: Snippet
    problems: list[Problem] = field(default_factory=list[Problem])
    lists: list[str] = field(default_factory=list[str])

    def predicate(self, node: SyntaxNode) -> Predicate:
        """Build the predicate of a node; if that has a problem, one with which the pass can go on."""
        match str(node.data):
            case "any":
                return Or(tuple(self.predicate(child) for child in nodes(node)))
            case "all":
                return And(tuple(self.predicate(child) for child in nodes(node)))
            case "no":
                return Not(self.predicate(nodes(node)[0]))
            case "truth":
                return Literal(tokens(node)[0] == "true")
            case "bare":
                return self._bare_field(node)
            case "quantified":
                return build_quantified(self, node)
            case "member" if nodes(node)[-1].data == "elements":
                return build_contained(self, node)
            case "compare" | "member" if any(child.data == "tally" for child in nodes(node)):
                return build_measured(self, node)
            case _:
                return self._condition(node)

    def word(self, node: SyntaxNode | Token) -> str:
        """Return the text of a node."""
        return self.snippet.text[slice(*span(node))]

    def report(self, code: str, message: str, hint: str, at: SyntaxNode | Token) -> None:
        """Add a problem with a node or token."""
        self.problems.append(self.snippet.problem(code, message, hint, *span(at)))

    def _bare_field(self, node: SyntaxNode) -> Predicate:
        word, (place,) = self.word(node), nodes(node)
        if place.data == "tally":
            self.report("TRL134", f"`{word}` is a number", f"compare it, such as `{word} > 0`", node)
            return Literal(True)
        path, known = read_path(self, place)
        check_scope(self, place)
        if known and known.type is not FieldType.FLAG:
            hint = f"compare it, such as `{word} is not null`"
            if known.type is FieldType.JSON and path.steps:
                hint = f"write `{word} == true`"
            self.report("TRL134", f"`{word}` is not a Boolean field", hint, node)
        return Leaf(path, Test.IS_TRUE)

    def _condition(self, node: SyntaxNode) -> Predicate:
        """Build a condition from a path, a test and its literals."""
        left = nodes(node)[0]
        path, known = read_path(self, left)
        test = _test_of(node)
        negated = any(token.type == "NOT" for token in tokens(node))
        fits = known is None or self._supports(node, known, test)
        against = self._against(node, known)
        if against is None or against.field != ELEMENT:
            check_scope(self, left)
        elif path.field != ELEMENT:
            return Leaf(against, FLIPPED[test], against=path)
        if against is not None:
            return Leaf(path, test, against=against)
        values = [build_value(self, test, known, child, fits) for child in _values_of(node)]
        leaf = (
            _flag(path, test, values)
            if known and known.type is FieldType.FLAG
            else Leaf(path, test, tuple(values))
        )
        return Not(leaf) if negated else leaf

    def _against(self, node: SyntaxNode, known: EventField | None) -> Path | None:
        """Return the path of the field that a condition compares with, if it is one that can be compared."""
        if node.data != "compare" or (known and known.type in (FieldType.CHOICE, FieldType.FLAG)):
            return None
        (value,) = _values_of(node)
        return None if isinstance(value, Token) else compared_path(self, value)

    def _supports(self, node: SyntaxNode, known: EventField, test: Test) -> bool:
        """Return whether the test applies to the field; report the problem if not."""
        name = known.name
        if test is Test.IS_NULL and not known.nullable and known.type is not FieldType.MAP:
            hint = 'test for a value, such as `kind == "user"`' if name == "kind" else "remove this condition"
            self.report("TRL135", f"field `{name}` is never null", hint, node)
        elif known.type is FieldType.CHOICE and test in ORDER | SEARCH:
            hint = f"compare with `==`, `!=` or `in`: `{name} in {json.dumps(known.choices[:2])}`"
            self.report(
                "TRL135",
                f"`{test.value}` does not apply to field `{name}`, which has a fixed set of values",
                hint,
                node,
            )
        elif known.type is FieldType.FLAG and test not in (Test.EQ, Test.NE):
            hint = f"write `{name}` or `not {name}`"
            self.report("TRL135", f"`{test.value}` does not apply to the Boolean field `{name}`", hint, node)
        else:
            return True
        return False


def _test_of(node: SyntaxNode) -> Test:
    """Return the test of a condition's node."""
    match str(node.data):
        case "compare":
            return Test(str(next(token for token in tokens(node) if token.type == "COMPARE")))
        case "member":
            return Test.IN
        case "matches":
            return Test.MATCHES
        case "contains":
            return Test.CONTAINS
        case "starts":
            return Test.STARTS_WITH
        case _:
            return Test.IS_NULL


def _values_of(node: SyntaxNode) -> list[SyntaxNode | Token]:
    """Return the literals of a condition: the children after its path that are not keywords."""
    words = ("NOT", "IN", "MATCHES", "CONTAINS", "STARTS", "WITH", "IS", "COMPARE")
    if node.data == "missing":
        return []
    return [child for child in node.children[1:] if not (isinstance(child, Token) and child.type in words)]


def _flag(path: Path, test: Test, values: list[Scalar]) -> Predicate:
    """Rewrite a comparison of a Boolean field: `nested == false` is `not nested`."""
    leaf = Leaf(path, Test.IS_TRUE)
    wanted = bool(values and values[0]) is (test is Test.EQ)
    return leaf if wanted else Not(leaf)
