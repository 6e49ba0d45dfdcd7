"""From a predicate's syntax tree to the predicate: which field can be asked what."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace

from lark import Token

from ..labels.limits import path_problems, regex_problems, size_problems
from ..model.fields import FIELDS, EventField, FieldType
from ..model.predicate import And, Leaf, Literal, Not, Or, Path, Predicate, Scalar, Test
from ..model.problem import Problem, RuleError, Snippet, did_you_mean
from .syntax import SyntaxNode, nodes, span, tokens

_ORDER = frozenset({Test.LT, Test.LE, Test.GT, Test.GE})
_SEARCH = frozenset({Test.MATCHES, Test.CONTAINS, Test.STARTS_WITH})
_INTEGER_MAX = 2**63 - 1
_DIGITS_MAX = 25
LARGEST_INTEGER = "integers go up to 9223372036854775807; a larger number is a double, such as `1e19`"
LARGEST_NUMBER = "numbers go up to 1.7976931348623157e308"


def build_predicate(snippet: Snippet, tree: SyntaxNode) -> Predicate:
    """The predicate of a tree; raises RuleError with every problem found."""
    builder = _PredicateBuilder(snippet)
    (top,) = nodes(tree)
    predicate = builder.predicate(top)
    builder.problems += [
        replace(problem, location=snippet.location(*span(top))) for problem in size_problems(predicate)
    ]
    if builder.problems:
        raise RuleError(builder.problems)
    return predicate


def build_path(snippet: Snippet, tree: SyntaxNode) -> Path:
    """The path of a tree; raises RuleError where there is no such field or step."""
    builder = _PredicateBuilder(snippet)
    path, _ = builder.path(tree)
    if builder.problems:
        raise RuleError(builder.problems)
    return path


@dataclass
class _PredicateBuilder:
    """One pass over a syntax tree, which collects every problem that it meets."""

    snippet: Snippet
    problems: list[Problem] = field(default_factory=list[Problem])

    def predicate(self, node: SyntaxNode) -> Predicate:
        """The predicate of a node; where that has a problem, one with which the rest can be read."""
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
            case _:
                return self._condition(node)

    def path(self, node: SyntaxNode) -> tuple[Path, EventField | None]:
        """The path of a node, and its field where there is one."""
        name, steps = tokens(node)[0], nodes(node)
        keys = tuple(self._step(step) for step in steps)
        known = FIELDS.get(name)
        if known is None:
            self._report("TRL130", f"an event has no field `{name}`", did_you_mean(name, FIELDS), name)
        elif known.type is FieldType.MAP:
            if len(keys) != 1 or isinstance(keys[0], int):
                hint = 'name one attribute: `attributes["tenant"]`'
                self._report("TRL131", "`attributes` holds texts by name", hint, node)
        elif steps and known.type is not FieldType.JSON:
            hint = f"ask `{name}` itself; only `args`, `result` and `attributes` have parts"
            self._report("TRL131", f"`{name}` has no parts", hint, steps[0])
        path = Path(str(name), keys)
        for problem in path_problems(path):
            self._report(problem.code, problem.message, problem.hint, node)
        return path, known

    def _report(self, code: str, message: str, hint: str, at: SyntaxNode | Token) -> None:
        self.problems.append(self.snippet.problem(code, message, hint, *span(at)))

    def _step(self, node: SyntaxNode) -> str | int:
        (token,) = tokens(node)
        if token.type == "INT":
            return int(token[:9])
        return self._string(token) if token.type == "STRING" else str(token)

    def _bare_field(self, node: SyntaxNode) -> Predicate:
        path, known = self.path(nodes(node)[0])
        if known and known.type is not FieldType.FLAG:
            word = self.snippet.text[slice(*span(node))]
            hint = f"compare it, such as `{word} is not null`"
            if known.type is FieldType.JSON and path.steps:
                hint = f"write `{word} == true`"
            self._report("TRL134", f"`{word}` alone is no yes-or-no question", hint, node)
        return Leaf(path, Test.IS_TRUE)

    def _condition(self, node: SyntaxNode) -> Predicate:
        """A path, a test and its literals."""
        path, known = self.path(nodes(node)[0])
        test = _test(node)
        negated = any(token.type == "NOT" for token in tokens(node))
        fits = known is None or self._supports(node, known, test)
        values = [self._value(test, known, child, fits) for child in _values(node)]
        leaf = (
            _flag(path, test, values)
            if known and known.type is FieldType.FLAG
            else Leaf(path, test, tuple(values))
        )
        return Not(leaf) if negated else leaf

    def _supports(self, node: SyntaxNode, known: EventField, test: Test) -> bool:
        """Return whether the field can be asked that at all."""
        name = known.name
        if test is Test.IS_NULL and not known.nullable and known.type is not FieldType.MAP:
            hint = 'ask for a value, such as `kind == "user"`' if name == "kind" else "leave the question out"
            self._report("TRL135", f"every event has `{name}`", hint, node)
        elif known.type is FieldType.CHOICE and test in _ORDER | _SEARCH:
            hint = f"compare with `==`, `!=` or `in`: `{name} in {json.dumps(known.choices[:2])}`"
            self._report("TRL135", f"`{name}` is one of a few words", hint, node)
        elif known.type is FieldType.FLAG and test not in (Test.EQ, Test.NE):
            self._report("TRL135", f"`{name}` is true or false", f"write `{name}` or `not {name}`", node)
        else:
            return True
        return False

    def _value(self, test: Test, known: EventField | None, child: SyntaxNode | Token, fits: bool) -> Scalar:
        """One literal, of a type that the test and the field can compare."""
        if not isinstance(child, Token):
            word = self.snippet.text[slice(*span(child))]
            instead = {"none": "is null", "nil": "is null", "true": "true", "false": "false"}.get(
                word.lower()
            )
            hint = f"write `{instead}`" if instead else f'write a string in double quotes, `"{word}"`'
            message = f"`{word}` is no literal"
            if word.split(".")[0].split("[")[0] in FIELDS:
                message, hint = f"`{word}` is a field", "compare a field with a string, number, true or false"
            self._report("TRL133", message, hint, child)
            return ""
        if child.type == "REGEX":
            pattern = re.sub(r"\\(.)", lambda m: "/" if m[1] == "/" else m[0], child[1:-1])
            for problem in regex_problems(pattern):
                self._report(problem.code, problem.message, problem.hint, child)
            return pattern
        if child.type == "NULL":
            self._report("TRL133", "nothing compares with null", "write `is null` or `is not null`", child)
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
            self._report("TRL152", "the number is too large", hint, token)
            return 0
        return value

    def _string(self, token: Token) -> str:
        try:
            text = str(json.loads(token, strict=False))
            text.encode("utf-8")
        except ValueError:
            hint = 'write `\\\\` for a backslash; the others are `\\"` `\\n` `\\t` `\\u00e9`'
            self._report("TRL115", "an escape in this string means nothing", hint, token)
            return ""
        return text

    def _check_type(self, test: Test, known: EventField | None, token: Token, value: Scalar) -> None:
        """Whether the literal's type suits the test and the field."""
        field_type = known.type if known else FieldType.JSON
        if test is Test.MATCHES:
            plain = re.sub(r"([/\\])", r"\\\1", value) if isinstance(value, str) else str(token)
            self._report("TRL133", "`matches` takes a regular expression", f"write `/{plain}/`", token)
        elif test in _SEARCH and not isinstance(value, str):
            self._report("TRL133", f"`{test.value}` takes a string", f'write `"{token}"`', token)
        elif field_type is FieldType.FLAG and not isinstance(value, bool):
            self._report(
                "TRL133",
                f"`{known.name if known else ''}` is true or false",
                "write it alone, or `not` before it",
                token,
            )
        elif field_type is FieldType.CHOICE and known and value not in known.choices:
            hint = did_you_mean(str(value), known.choices)
            self._report("TRL132", f"`{known.name}` is never {token}", f"{hint}" if hint else "", token)
        elif field_type is FieldType.TEXT and known and not isinstance(value, str):
            self._report("TRL133", f"`{known.name}` is text", f'write `"{token}"`', token)
        elif test in _ORDER and isinstance(value, bool):
            self._report("TRL133", "true and false have no order", "compare them with `==`", token)


def _test(node: SyntaxNode) -> Test:
    """The test that a question's node asks."""
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


def _values(node: SyntaxNode) -> list[SyntaxNode | Token]:
    """The literals of a question: what stands after its path, keywords aside."""
    words = ("NOT", "IN", "MATCHES", "CONTAINS", "STARTS", "WITH", "IS", "COMPARE")
    if node.data == "missing":
        return []
    return [child for child in node.children[1:] if not (isinstance(child, Token) and child.type in words)]


def _flag(path: Path, test: Test, values: list[Scalar]) -> Predicate:
    """`nested == false` is `not nested`."""
    leaf = Leaf(path, Test.IS_TRUE)
    wanted = bool(values and values[0]) is (test is Test.EQ)
    return leaf if wanted else Not(leaf)
