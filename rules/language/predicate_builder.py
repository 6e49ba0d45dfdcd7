"""Building of predicates and paths from syntax trees: fields, tests and literals are checked."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace

from lark import Token

from ..model.fields import ELEMENT_FIELD, FIELDS, EventField, FieldType
from ..model.predicate import ELEMENT, And, Leaf, Literal, Not, Or, Path, Predicate, Scalar, Test
from ..model.predicate_limits import path_problems, regex_problems, size_problems
from ..model.problem import Problem, RuleError, Snippet, did_you_mean
from .list_builder import FLIPPED, build_contained, build_measured, build_quantified
from .syntax import SyntaxNode, nodes, span, tokens

_ORDER = frozenset({Test.LT, Test.LE, Test.GT, Test.GE})
_SEARCH = frozenset({Test.MATCHES, Test.CONTAINS, Test.STARTS_WITH})
_INTEGER_MAX = 2**63 - 1
_DIGITS_MAX = 25
"""Digits of a number that are read: numbers with more are beyond every limit."""
LARGEST_INTEGER = "the largest integer is 9223372036854775807; write a larger number as a double, `1e19`"
TIMES = "times and durations cannot be expressed yet: rules are about events and their order"
_TIME_WORDS = frozenset({"time", "timestamp", "date", "day", "hour", "duration", "elapsed", "now"})
INSIDE_LIST = "write it in a condition on a list, `any(args.items, .price > 3)`"
OUTSIDE_LIST = 'move this condition out of the parentheses, `kind == "tool_call" and any(...)`'
LARGEST_NUMBER = "the largest number is 1.7976931348623157e308"


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
    path, _ = builder.path(tree)
    if builder.problems:
        raise RuleError(builder.problems)
    return path


@dataclass
class PredicateBuilder:
    """One pass over a syntax tree that collects every problem in `problems`.

    `lists` counts the lists about whose elements the current condition is.
    """

    snippet: Snippet
    problems: list[Problem] = field(default_factory=list[Problem])
    lists: int = 0

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

    def path(self, node: SyntaxNode) -> tuple[Path, EventField | None]:
        """Build the path of a node and return it with its field, if that is known."""
        name, steps = tokens(node)[0], nodes(node)
        keys = tuple(self.step(step) for step in steps)
        known = FIELDS.get(name)
        if node.data == "element":
            name, known, keys = ELEMENT, ELEMENT_FIELD, (*([name[1:]] if name != "." else []), *keys)
            if not self.lists:
                self.report("TRL136", f"`{self.word(node)}` is a part of an element", INSIDE_LIST, node)
        elif known is None:
            hint = TIMES if name.casefold() in _TIME_WORDS else did_you_mean(name, FIELDS)
            self.report("TRL130", f"unknown field `{name}`", hint, name)
        elif known.type is FieldType.MAP:
            if len(keys) != 1 or isinstance(keys[0], int):
                hint = 'write `attributes["tenant"]`'
                self.report("TRL131", "`attributes` requires the name of one attribute", hint, node)
        elif steps and known.type is not FieldType.JSON:
            hint = f"use `{name}` itself; only `args`, `result` and `attributes` have parts"
            if keys[0] in ("length", "len", "size"):
                hint = f"a length cannot be expressed yet; `{name} matches /(?s)^.{{500}}/` is 500 characters"
            self.report("TRL131", f"field `{name}` has no parts", hint, steps[0])
        path = Path(str(name), keys)
        for problem in path_problems(path):
            self.report(problem.code, problem.message, problem.hint, node)
        return path, known

    def word(self, node: SyntaxNode | Token) -> str:
        """Return the text of a node."""
        return self.snippet.text[slice(*span(node))]

    def report(self, code: str, message: str, hint: str, at: SyntaxNode | Token) -> None:
        """Add a problem with a node or token."""
        self.problems.append(self.snippet.problem(code, message, hint, *span(at)))

    def step(self, node: SyntaxNode) -> str | int:
        """Return the key or index of a step into JSON."""
        (token,) = tokens(node)
        if token.type == "INT":
            return int(token.lstrip("0")[:_DIGITS_MAX] or "0")
        return self._string(token) if token.type == "STRING" else str(token)

    def _bare_field(self, node: SyntaxNode) -> Predicate:
        word, (place,) = self.word(node), nodes(node)
        if place.data == "tally":
            self.report("TRL134", f"`{word}` is a number", f"compare it, such as `{word} > 0`", node)
            return Literal(True)
        path, known = self.path(place)
        self._check_scope(place)
        if known and known.type is not FieldType.FLAG:
            hint = f"compare it, such as `{word} is not null`"
            if known.type is FieldType.JSON and path.steps:
                hint = f"write `{word} == true`"
            self.report("TRL134", f"`{word}` is not a Boolean field", hint, node)
        return Leaf(path, Test.IS_TRUE)

    def _condition(self, node: SyntaxNode) -> Predicate:
        """Build a condition from a path, a test and its literals."""
        left = nodes(node)[0]
        path, known = self.path(left)
        test = _test_of(node)
        negated = any(token.type == "NOT" for token in tokens(node))
        fits = known is None or self._supports(node, known, test)
        against = self._against(node, known)
        if against is None or against.field != ELEMENT:
            self._check_scope(left)
        elif path.field != ELEMENT:
            return Leaf(against, FLIPPED[test], against=path)
        if against is not None:
            return Leaf(path, test, against=against)
        values = [self.value(test, known, child, fits) for child in _values_of(node)]
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
        return None if isinstance(value, Token) else self.compared_path(value)

    def compared_path(self, node: SyntaxNode) -> Path | None:
        """Return the path of a node if it is a field that can be on the right of a comparison."""
        known = ELEMENT_FIELD if node.data == "element" else FIELDS.get(tokens(node)[0])
        if known is None or known.type in (FieldType.CHOICE, FieldType.FLAG):
            return None
        return self.path(node)[0]

    def _check_scope(self, place: SyntaxNode) -> None:
        """Report a condition on the event inside a condition on the elements of a list."""
        if self.lists and place.data != "element":
            message = f"`{self.word(place)}` is a field of the event, not of the element"
            self.report("TRL136", message, OUTSIDE_LIST, place)

    def _supports(self, node: SyntaxNode, known: EventField, test: Test) -> bool:
        """Return whether the test applies to the field; report the problem if not."""
        name = known.name
        if test is Test.IS_NULL and not known.nullable and known.type is not FieldType.MAP:
            hint = 'test for a value, such as `kind == "user"`' if name == "kind" else "remove this condition"
            self.report("TRL135", f"field `{name}` is never null", hint, node)
        elif known.type is FieldType.CHOICE and test in _ORDER | _SEARCH:
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

    def value(self, test: Test, known: EventField | None, child: SyntaxNode | Token, fits: bool) -> Scalar:
        """Return the value of one literal, of a type that the test and the field can compare."""
        if not isinstance(child, Token):
            word = self.word(child)
            instead = {"none": "is null", "nil": "is null", "true": "true", "false": "false"}.get(
                word.lower()
            )
            hint = f"write `{instead}`" if instead else f'write a string in double quotes, `"{word}"`'
            message = f"`{word}` is not a literal"
            if word.split(".")[0].split("[")[0] in FIELDS:
                message, hint = (
                    f"`{word}` is a field, not a literal",
                    "compare with a string, number, true or false",
                )
            self.report("TRL133", message, hint, child)
            return ""
        if child.type == "REGEX":
            pattern = re.sub(r"\\(.)", lambda m: "/" if m[1] == "/" else m[0], child[1:-1])
            for problem in regex_problems(pattern):
                self.report(problem.code, problem.message, problem.hint, child)
            return pattern
        if child.type == "NULL":
            self.report("TRL133", "null cannot be compared", "write `is null` or `is not null`", child)
            return ""
        value = self._literal(child)
        if fits:
            self._check_type(test, known, child, value)
        return value

    def _literal(self, token: Token) -> Scalar:
        if token.type == "STRING":
            return self._string(token)
        if token.type in ("TRUE", "FALSE"):
            return token.type == "TRUE"
        whole = token.lstrip("-").isdigit()
        value = int(token[:_DIGITS_MAX]) if whole else float(token)
        if abs(value) > _INTEGER_MAX if whole else not math.isfinite(value):
            hint = LARGEST_INTEGER if whole else LARGEST_NUMBER
            self.report("TRL152", "the number is too large", hint, token)
            return 0
        return value

    def _string(self, token: Token) -> str:
        try:
            text = str(json.loads(token, strict=False))
            text.encode("utf-8")
        except ValueError:
            hint = 'write `\\\\` for a backslash; other escapes are `\\"` `\\n` `\\t` `\\u00e9`'
            self.report("TRL115", "invalid escape in the string", hint, token)
            return ""
        return text

    def _check_type(self, test: Test, known: EventField | None, token: Token, value: Scalar) -> None:
        """Check that the test and the field accept the literal's type."""
        field_type = known.type if known else FieldType.JSON
        if test is Test.MATCHES:
            plain = re.sub(r"([/\\])", r"\\\1", value) if isinstance(value, str) else str(token)
            self.report("TRL133", "`matches` requires a regular expression", f"write `/{plain}/`", token)
        elif test in _SEARCH and not isinstance(value, str):
            self.report("TRL133", f"`{test.value}` requires a string", f'write `"{token}"`', token)
        elif field_type is FieldType.FLAG and not isinstance(value, bool):
            name = known.name if known else ""
            self.report("TRL133", f"field `{name}` is a Boolean", "write it alone, or `not` before it", token)
        elif field_type is FieldType.CHOICE and known and value not in known.choices:
            hint = did_you_mean(str(value), known.choices)
            self.report("TRL132", f"field `{known.name}` never has the value {token}", hint, token)
        elif field_type is FieldType.TEXT and known and not isinstance(value, str):
            self.report("TRL133", f"field `{known.name}` is text", f'write `"{token}"`', token)
        elif test in _ORDER and isinstance(value, bool):
            self.report("TRL133", "Booleans have no order", "compare them with `==`", token)


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
