"""The transitions of a pack: what their formulas may refer to, and which of them a rule uses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ..model.formula import BOOLEAN, Formula, Op, names


def transition_faults(formula: Formula, transitions: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the code, message and hint of each fault of a transition's formula.

    It is Boolean, with `previous` over any formula. `transitions` are the names of the pack's transitions.
    """
    for part in _present_parts(formula):
        if part.op is Op.PROP and part.name in transitions:
            hint = f"write `previous {part.name}`: a transition is defined by its previous value"
            yield "TRL231", f"transition `{part.name}` is used outside `previous`", hint
        elif part.op not in BOOLEAN and part.op is not Op.PREVIOUS:
            hint = f"write it under `previous`: `previous ({part})`"
            yield "TRL230", f"`{part.op.value}` outside `previous` in a transition", hint


def used_transitions(used: Collection[str], transitions: Mapping[str, Formula]) -> dict[str, Formula]:
    """Return the transitions among the used names, and those that they use in turn."""
    todo = [name for name in used if name in transitions]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(names(transitions[name]) & transitions.keys())
    return {name: transitions[name] for name in sorted(found)}


def _present_parts(formula: Formula) -> Iterator[Formula]:
    """Yield the nodes of a formula that refer to the current event: those outside `previous`."""
    todo = [formula]
    while todo:
        node = todo.pop()
        yield node
        # previous[0] p  =  p
        if node.op is not Op.PREVIOUS or node.bounds == (0, 0):
            todo.extend(reversed(node.args))
