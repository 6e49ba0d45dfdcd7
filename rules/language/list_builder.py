"""Building of conditions on lists: `any`, `all`, `count`, `sum`, and `in` with the elements of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lark import Token

from ..model.fields import EventField, FieldType
from ..model.predicate import (
    ELEMENT,
    Contained,
    Elements,
    Fold,
    Literal,
    Measured,
    Not,
    Path,
    Predicate,
    Quantified,
    Quantifier,
    Scalar,
    Tally,
    Test,
    is_number,
)
from .literal_builder import build_value
from .path_builder import compared_path, read_path, read_step
from .syntax import SyntaxNode, nodes, tokens

if TYPE_CHECKING:
    from .predicate_builder import PredicateBuilder

FLIPPED = {
    Test.EQ: Test.EQ,
    Test.NE: Test.NE,
    Test.LT: Test.GT,
    Test.LE: Test.GE,
    Test.GT: Test.LT,
    Test.GE: Test.LE,
}
"""The comparisons with their sides exchanged."""

_NO_LIST = Elements(Path("args", ("items",)))
"""The elements with which the pass goes on after a problem."""


def build_quantified(builder: PredicateBuilder, node: SyntaxNode) -> Predicate:
    """Build `any(list, condition)` or `all(list, condition)`."""
    elements, where = nodes(node)
    quantifier = Quantifier(str(tokens(node)[0]))
    return Quantified(quantifier, _elements(builder, elements), _where(builder, elements, where))


def build_contained(builder: PredicateBuilder, node: SyntaxNode) -> Predicate:
    """Build `field in list` or `field not in list`."""
    left, right = nodes(node)
    of_event = len(builder.lists) == 1 and left.data == "element"
    elements = _elements(builder, right, of_event=of_event)
    if left.data == "tally":
        hint = f"write `any({builder.word(right)}, . == ...)`, or compare it with a number"
        builder.report("TRL137", f"`{builder.word(left)}` cannot be looked up in a list", hint, left)
        return Literal(True)
    path, known = read_path(builder, left)
    if known is not None and known.type in (FieldType.CHOICE, FieldType.FLAG):
        hint = f"compare it with words, `{known.name} == ...`"
        builder.report("TRL135", f"`in` of a list does not apply to field `{known.name}`", hint, left)
    contained = Contained(path, elements)
    return Not(contained) if any(token.type == "NOT" for token in tokens(node)) else contained


def build_measured(builder: PredicateBuilder, node: SyntaxNode) -> Predicate:
    """Build a comparison of `count(...)` or `sum(...)` with numbers, a field, or another of them."""
    left, *rest = [child for child in node.children if not _is_keyword(child)]
    negated = any(token.type == "NOT" for token in tokens(node))
    test = next((Test(str(token)) for token in tokens(node) if token.type == "COMPARE"), Test.IN)
    if isinstance(left, Token) or left.data != "tally":
        assert not isinstance(left, Token), "a comparison starts with a field or a number of a list"
        return _compared(builder, left, test, rest)
    tally = _tally(builder, left)
    if test is not Test.IN and not isinstance(rest[0], Token):
        against = _number(builder, rest[0])
        return Literal(True) if against is None else Measured(tally, test, against=against)
    numbers = tuple(_literal(builder, test, left, child) for child in rest)
    return Not(Measured(tally, test, numbers)) if negated else Measured(tally, test, numbers)


def _compared(
    builder: PredicateBuilder, left: SyntaxNode, test: Test, rest: list[Token | SyntaxNode]
) -> Predicate:
    """Build a comparison with the number of a list on the right."""
    path = _number(builder, left)
    right = next((child for child in rest if not isinstance(child, Token) and child.data == "tally"), left)
    tally = _tally(builder, right)
    if test is Test.IN:
        builder.report("TRL133", f"`{builder.word(right)}` is no literal", "compare it with `==`", right)
        return Literal(True)
    return Literal(True) if path is None else Measured(tally, FLIPPED[test], against=path)


def _number(builder: PredicateBuilder, node: SyntaxNode) -> Path | Tally | None:
    """Return what the number of a list is compared with: a field, or the number of a list."""
    if node.data == "tally":
        return _tally(builder, node)
    path = compared_path(builder, node)
    if path is None:
        message = f"`{builder.word(node)}` cannot be compared with the number of a list"
        builder.report("TRL133", message, "compare with a number, or with a field such as `args.total`", node)
    return path


def _literal(builder: PredicateBuilder, test: Test, left: SyntaxNode, child: Token | SyntaxNode) -> Scalar:
    before = len(builder.problems)
    value = build_value(builder, test, None, child, True)
    if not is_number(value) and len(builder.problems) == before:
        hint = f"compare it with a number, such as `{builder.word(left)} > 0`"
        builder.report("TRL133", f"`{builder.word(left)}` is a number", hint, child)
    return value


def _tally(builder: PredicateBuilder, node: SyntaxNode) -> Tally:
    """Build `count(list)`, `count(list, condition)`, `sum(list)` or `sum(list, .price)`."""
    first, *more = nodes(node)
    fold = Fold(str(tokens(node)[0]))
    elements = _elements(builder, first)
    if fold is Fold.SUM:
        return Tally(fold, Elements(elements.list, (*elements.steps, *_summed(builder, first, more))))
    if more:
        return Tally(fold, elements, _where(builder, first, more[0]))
    if elements.steps:
        text = builder.word(first.children[0])
        hint = (
            f"write `count({text})`, or `count({builder.word(first)}, . is not null)` for those that have it"
        )
        builder.report("TRL137", "`count` counts the elements of the list, whatever they have", hint, first)
    return Tally(fold, elements)


def _summed(builder: PredicateBuilder, elements: SyntaxNode, more: list[SyntaxNode]) -> tuple[str | int, ...]:
    """Return the steps to the number of each element that `sum` adds."""
    if not more:
        return ()
    (node,) = more
    inner = nodes(node)[0] if node.data == "bare" else node
    if inner.data != "element":
        hint = f"write `sum({builder.word(elements)}, .price)`"
        builder.report("TRL137", "`sum` adds one number of each element", hint, node)
        return ()
    builder.lists.append(builder.word(elements))
    path, _ = read_path(builder, inner)
    builder.lists.pop()
    return path.steps


def _elements(builder: PredicateBuilder, node: SyntaxNode, *, of_event: bool = False) -> Elements:
    """Build the elements of a list: `args.items`, or `args.items[*].price`.

    Inside a condition on elements it is a list of the element, or with `of_event` one of the event, too.
    """
    place, *each = nodes(node)
    path, known = read_path(builder, place)
    word = builder.word(node)
    if known is not None and known.type is not FieldType.JSON:
        _report_no_list(builder, place, known)
    elif known is not None and builder.lists and path.field != ELEMENT and not of_event:
        hint = "begin with a dot, `any(.seats, ...)`, or write this condition outside the parentheses"
        builder.report("TRL136", f"`{word}` is a list of the event, not of the element", hint, place)
    if len(each) > 1:
        hint = 'write a condition in the other, `any(args.flights, any(.legs, .cabin == "first"))`'
        builder.report("TRL137", f"`{word}` names the elements of several lists", hint, node)
    steps = tuple(read_step(builder, step) for step in nodes(each[0])) if each else ()
    return Elements(path, steps) if known is not None else _NO_LIST


def _report_no_list(builder: PredicateBuilder, place: SyntaxNode, known: EventField) -> None:
    hint = "lists are in `args` and `result`, `any(args.items, .price > 3)`"
    if known.type is FieldType.TEXT:
        hint += f"; for one of several values write `{known.name} in [...]`"
    builder.report("TRL137", f"`{builder.word(place)}` is no list", hint, place)


def _where(builder: PredicateBuilder, elements: SyntaxNode, node: SyntaxNode) -> Predicate:
    """Build a condition on the elements of a list."""
    builder.lists.append(builder.word(elements))
    where = builder.predicate(node)
    builder.lists.pop()
    return where


def _is_keyword(child: Token | SyntaxNode) -> bool:
    return isinstance(child, Token) and child.type in ("NOT", "IN", "COMPARE")
