"""Printing of formulas and predicates, with the fewest parentheses that parse back to the same tree."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from .formula import BOUNDED, Formula, Op
from .keywords import BINARY_TEMPORAL
from .predicate import (
    ELEMENT,
    And,
    Contained,
    Elements,
    Leaf,
    ListCondition,
    Literal,
    Measured,
    Not,
    Or,
    Path,
    Predicate,
    Quantified,
    Scalar,
    Tally,
    Test,
)

_EQUAL, _IMPLY, _OR, _AND, _TEMPORAL, _UNARY, _ATOM = range(7)
"""The precedence of a node, loosest first, as in grammar.lark."""

_BINDS = {
    Op.IFF: _EQUAL,
    Op.IMPLIES: _IMPLY,
    Op.OR: _OR,
    Op.AND: _AND,
    **dict.fromkeys(BINARY_TEMPORAL, _TEMPORAL),
    **dict.fromkeys((Op.TRUE, Op.FALSE, Op.PROP), _ATOM),
}
_RIGHT = frozenset({_IMPLY, _TEMPORAL})

_Fragment = str | tuple[Formula, int]


@lru_cache(maxsize=4096)
def to_text(formula: Formula) -> str:
    """Print a formula in words (`always (p -> eventually[0,3] q)`); it parses back to the same tree."""
    out: list[str] = []
    todo: list[_Fragment] = [(formula, _EQUAL)]
    while todo:
        fragment = todo.pop()
        if isinstance(fragment, str):
            out.append(fragment)
            continue
        node, at_least = fragment
        fragments = _fragments(node)
        if _BINDS.get(node.op, _UNARY) < at_least:
            fragments = ["(", *fragments, ")"]
        todo.extend(reversed(fragments))
    return "".join(out)


def predicate_text(predicate: Predicate) -> str:
    """Print a predicate as packs write it; it parses back to the same tree."""
    match predicate:
        case Literal(value):
            return "true" if value else "false"
        case Leaf():
            return _leaf_text(predicate, negated=False)
        case Not(Leaf(test=Test.IN | Test.IS_NULL) as leaf):
            return _leaf_text(leaf, negated=True)
        case Not(Measured(test=Test.IN) | Contained() as condition):
            return _list_text(condition, negated=True)
        case Not(arg):
            inner = predicate_text(arg)
            return f"not ({inner})" if isinstance(arg, And | Or) else f"not {inner}"
        case And(args):
            return " and ".join(_grouped(arg, (And, Or)) for arg in args)
        case Or(args):
            return " or ".join(_grouped(arg, (Or,)) for arg in args)
        case _:
            return _list_text(predicate)


def path_text(path: Path) -> str:
    """Print a path: `args.items[0]["odd key"]`, or `.price` of an element."""
    if path.field != ELEMENT:
        return path.field + _steps_text(path)
    steps = _steps_text(path)
    return steps if steps.startswith(".") else f".{steps}"


def elements_text(elements: Elements) -> str:
    """Print the elements of a list: `args.items`, or `args.items[*].price`."""
    each = f"[*]{_steps_text(Path(ELEMENT, elements.steps))}" if elements.steps else ""
    return path_text(elements.list) + each


def _steps_text(path: Path) -> str:
    out: list[str] = []
    for step in path.steps:
        if isinstance(step, int):
            out.append(f"[{step}]")
        elif path.field != "attributes" and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", step):
            out.append(f".{step}")
        else:
            out.append(f"[{scalar_text(step)}]")
    return "".join(out)


def scalar_text(value: Scalar) -> str:
    """Print a literal: strings in double quotes with JSON's escapes."""
    return json.dumps(value, ensure_ascii=False)


def _fragments(node: Formula) -> list[_Fragment]:
    """Return the node's own words and, between them, its operands with the least precedence of each."""
    if node.op is Op.PROP:
        return [node.name]
    if not node.args:
        return [node.op.value]
    binds = _BINDS.get(node.op, _UNARY)
    if binds == _UNARY:
        return [node.op.value, _bounds_text(node), " ", (node.args[0], _UNARY)]
    right = binds in _RIGHT
    last = len(node.args) - 1
    fragments: list[_Fragment] = []
    for i, arg in enumerate(node.args):
        same_side = i == last if right else i == 0
        fragments += [f" {node.op.value} "] if i else []
        fragments.append((arg, binds if same_side else binds + 1))
    return fragments


def _bounds_text(node: Formula) -> str:
    if node.bounds is None:
        return ""
    low, high = node.bounds
    if node.op in BOUNDED:
        return f"[{low},{high}]"
    return f"[{high}]"


def _grouped(predicate: Predicate, loose: tuple[type[And | Or], ...]) -> str:
    text = predicate_text(predicate)
    return f"({text})" if isinstance(predicate, loose) else text


def _leaf_text(leaf: Leaf, *, negated: bool) -> str:
    path, test, operands = path_text(leaf.path), leaf.test, leaf.operands
    no = "not " if negated else ""
    match test:
        case Test.IS_TRUE:
            return path
        case Test.IS_NULL:
            return f"{path} is {no}null"
        case Test.IN:
            return f"{path} {no}in [{', '.join(map(scalar_text, operands))}]"
        case Test.MATCHES:
            return f"{path} matches {_regex_text(str(operands[0]))}"
        case _:
            right = scalar_text(operands[0]) if leaf.against is None else path_text(leaf.against)
            return f"{path} {test.value} {right}"


def _list_text(condition: ListCondition, *, negated: bool = False) -> str:
    no = "not " if negated else ""
    match condition:
        case Quantified(quantifier, elements, where):
            return f"{quantifier.value}({elements_text(elements)}, {predicate_text(where)})"
        case Contained(path, elements):
            return f"{path_text(path)} {no}in {elements_text(elements)}"
        case Measured(tally, Test.IN, operands):
            return f"{_tally_text(tally)} {no}in [{', '.join(map(scalar_text, operands))}]"
        case Measured(tally, test, operands, against):
            if isinstance(against, Tally):
                right = _tally_text(against)
            else:
                right = scalar_text(operands[0]) if against is None else path_text(against)
            return f"{_tally_text(tally)} {test.value} {right}"


def _tally_text(tally: Tally) -> str:
    where = "" if tally.where is None else f", {predicate_text(tally.where)}"
    return f"{tally.fold.value}({elements_text(tally.elements)}{where})"


def _regex_text(regex: str) -> str:
    """Print a regular expression between slashes, its own slashes escaped."""
    escaped = re.sub(r"\\.|/|\n", lambda m: {"/": r"\/", "\n": r"\n"}.get(m[0], m[0]), regex)
    return f"/{escaped}/"
