"""User-defined operators: their heads and bodies, which may call each other but not themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from lark import Token

from ..model.formula import TRUE
from ..model.problem import Problem, RuleError, Snippet
from .formula_builder import FormulaBuilder
from .operator_calls import Operator
from .syntax import SyntaxNode, parse_tree, span, tokens


def parse_operators(
    definitions: Sequence[tuple[Snippet, Snippet]],
    *,
    operators: Mapping[str, Operator] | None = None,
    known: Collection[str] | None = None,
) -> tuple[dict[str, Operator], tuple[Problem, ...]]:
    """Parse operators from (head, body) pairs and return them with all problems; they may call each other.

    `operators` are those defined elsewhere, `known` the propositions a body may name beside its parameters
    (None: any). An operator whose body has a problem is returned with the body `true`, so that its calls
    cause no further problems; if there are problems, the operators serve only to find more.
    """
    given = operators or {}
    heads: dict[str, tuple[tuple[str, ...], Snippet]] = {}
    problems: list[Problem] = []
    for head, body in definitions:
        try:
            name, parameters = _head(head)
        except RuleError as error:
            problems += error.problems
            continue
        if name in heads or name in given:
            hint = "give one of them another name"
            problems.append(head.problem("TRL126", f"duplicate operator `{name}`", hint, 0, len(name)))
            continue
        heads[name] = (parameters, body)
    found, more = _bodies(heads, given, known)
    return found, (*problems, *more)


def _head(snippet: Snippet) -> tuple[str, tuple[str, ...]]:
    """Parse the name and the parameters of an operator's head."""
    name, *parameters = tokens(parse_tree(snippet, "head"))
    repeated = [token for i, token in enumerate(parameters) if token in parameters[:i]]
    if repeated:
        hint = "give each parameter a different name"
        message = f"duplicate parameter `{repeated[0]}`"
        raise RuleError([snippet.problem("TRL124", message, hint, *span(repeated[0]))])
    return str(name), tuple(map(str, parameters))


def _bodies(
    heads: Mapping[str, tuple[tuple[str, ...], Snippet]],
    given: Mapping[str, Operator],
    known: Collection[str] | None,
) -> tuple[dict[str, Operator], list[Problem]]:
    """Return the operators of those heads; each is built after the operators that it calls."""
    trees: dict[str, SyntaxNode] = {}
    problems: list[Problem] = []
    for name, (_, body) in heads.items():
        try:
            trees[name] = parse_tree(body, "formula")
        except RuleError as error:
            problems += error.problems
    calls = {name: _calls(tree) for name, tree in trees.items()}
    order, cycles = _order({name: set(called) & set(trees) for name, called in calls.items()})
    for cycle in cycles:
        at = calls[cycle[0]][cycle[1 % len(cycle)]]
        calling = " calls ".join(f"`{name}`" for name in (*cycle, cycle[0]))
        hint = "define the operator without calling itself: it expands to a finite formula"
        problems.append(
            heads[cycle[0]][1].problem("TRL123", f"recursive operator: {calling}", hint, *span(at))
        )
    found = {name: Operator(name, parameters, TRUE) for name, (parameters, _) in heads.items()}
    for name in order:
        parameters, body = heads[name]
        names = None if known is None else {*known, *parameters}
        builder = FormulaBuilder(body, {**given, **found}, names)
        formula = builder.formula(trees[name])
        problems += builder.problems
        if not builder.problems:
            found[name] = Operator(name, parameters, formula)
    return found, problems


def _calls(tree: SyntaxNode) -> dict[str, Token]:
    """Return the operators that the tree calls, each with the token of one call."""
    return {str(token): token for call in tree.find_data("call") for token in tokens(call)}


def _order(calls: Mapping[str, set[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the names outside cycles, callees first, and the cycles, each in calling order."""
    remaining = dict(calls)
    cycles: list[list[str]] = []
    while True:
        try:
            order = TopologicalSorter({name: called & remaining.keys() for name, called in remaining.items()})
            return list(order.static_order()), cycles
        except CycleError as error:
            cycle: list[str] = error.args[1][:0:-1]  # the sorter lists callees first, one name at both ends
            first = min(range(len(cycle)), key=lambda i: list(calls).index(cycle[i]))
            cycles.append(cycle[first:] + cycle[:first])
            remaining = {name: called for name, called in remaining.items() if name not in cycle}
