"""Paths of conditions: a field with the steps into it, or a part of an element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.fields import ELEMENT_FIELD, FIELDS, EventField, FieldType
from ..model.path_limits import path_problems
from ..model.predicate import ELEMENT, Path
from ..model.problem import did_you_mean
from .literal_builder import DIGITS_MAX, build_string
from .syntax import SyntaxNode, nodes, tokens

if TYPE_CHECKING:
    from .predicate_builder import PredicateBuilder

TIMES = "times and durations cannot be expressed yet: rules are about events and their order"
_TIME_WORDS = frozenset({"time", "timestamp", "date", "day", "hour", "duration", "elapsed", "now"})
INSIDE_LIST = "write it in a condition on a list, `any(args.items, .price > 3)`"
OUTSIDE_LIST = 'move this condition out of the parentheses, `kind == "tool_call" and any(...)`'


def read_path(builder: PredicateBuilder, node: SyntaxNode) -> tuple[Path, EventField | None]:
    """Build the path of a node and return it with its field, if that is known."""
    name, steps = tokens(node)[0], nodes(node)
    keys = tuple(read_step(builder, step) for step in steps)
    known = FIELDS.get(name)
    if node.data == "element":
        name, known, keys = ELEMENT, ELEMENT_FIELD, (*([name[1:]] if name != "." else []), *keys)
        if not builder.lists:
            builder.report("TRL136", f"`{builder.word(node)}` is a part of an element", INSIDE_LIST, node)
    elif known is None and builder.lists:
        message = f"`{builder.word(node)}` is no field, and a part of the element begins with a dot"
        builder.report("TRL136", message, _element_hint(builder, node), node)
    elif known is None:
        hint = TIMES if name.casefold() in _TIME_WORDS else did_you_mean(name, FIELDS)
        builder.report("TRL130", f"unknown field `{name}`", hint, name)
    elif known.type is FieldType.MAP:
        if len(keys) != 1 or isinstance(keys[0], int):
            hint = 'write `attributes["tenant"]`'
            builder.report("TRL131", "`attributes` requires the name of one attribute", hint, node)
    elif steps and known.type is not FieldType.JSON:
        hint = f"use `{name}` itself; only `args`, `result` and `attributes` have parts"
        if keys[0] in ("length", "len", "size"):
            hint = f"a length cannot be expressed yet; `{name} matches /(?s)^.{{500}}/` is 500 characters"
        builder.report("TRL131", f"field `{name}` has no parts", hint, steps[0])
    path = Path(str(name), keys)
    for problem in path_problems(path):
        builder.report(problem.code, problem.message, problem.hint, node)
    return path, known


def read_step(builder: PredicateBuilder, node: SyntaxNode) -> str | int:
    """Return the key or index of a step into JSON."""
    (token,) = tokens(node)
    if token.type == "INT":
        return int(token.lstrip("0")[:DIGITS_MAX] or "0")
    return build_string(builder, token) if token.type == "STRING" else str(token)


def check_scope(builder: PredicateBuilder, place: SyntaxNode) -> None:
    """Report a condition on the event inside a condition on the elements of a list."""
    if builder.lists and place.data != "element" and tokens(place)[0] in FIELDS:
        message = f"`{builder.word(place)}` is a field of the event, not of the element"
        builder.report("TRL136", message, f"{_element_hint(builder, place)}, or {OUTSIDE_LIST}", place)


def _element_hint(builder: PredicateBuilder, place: SyntaxNode) -> str:
    """Return how to write a part of the element that a path without a dot seems to mean."""
    word, name = builder.word(place), str(tokens(place)[0])
    inner = builder.lists[-1].partition("[")[0]
    if word.startswith(f"{inner}."):
        return f"write `{word.removeprefix(inner)}`"
    is_element = name != word and inner.rpartition(".")[2].startswith(name.removesuffix("y"))
    return f"write `{word.removeprefix(name)}`" if is_element else f"write `.{word}`"


def compared_path(builder: PredicateBuilder, node: SyntaxNode) -> Path | None:
    """Return the path of a node if it is a field that can be on the right of a comparison."""
    known = ELEMENT_FIELD if node.data == "element" else FIELDS.get(tokens(node)[0])
    if known is None or known.type in (FieldType.CHOICE, FieldType.FLAG):
        return None
    return read_path(builder, node)[0]
