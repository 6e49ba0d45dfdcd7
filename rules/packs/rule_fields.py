"""The fields `steps`, `applies_to` and `for_each` of a rule: what their values may be."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..model.formula import BOOLEAN, Formula, has_future, walk
from ..model.predicate_limits import SLICE_PATHS_MAX
from .validate import SHAPES, KeyPath

Fault = tuple[str, str, str]
"""The code, the message and the hint of a problem."""


def steps_fault(formula: Formula, transitions: Collection[str]) -> Fault | None:
    """Return the fault of `steps` that is no Boolean formula over propositions."""
    for part in walk(formula):
        if part.op not in BOOLEAN or part.name in transitions:
            hint = "`steps` selects single events: use propositions with `and`, `or` and `not`"
            return "TRL232", f"`steps` cannot use `{part.name or part.op.value}`", hint
    return None


def applies_to_fault(formula: Formula) -> Fault | None:
    """Return the fault of `applies_to` that has a future operator."""
    if not has_future(formula):
        return None
    hint = "use Boolean and past operators, such as `p` or `once p`"
    return "TRL233", "`applies_to` has a future operator", hint


def slice_paths(value: str | list[str] | list[list[str]], path: KeyPath) -> tuple[list[KeyPath], bool]:
    """Return where the document has the paths of `for_each`, and whether they are a tuple.

    There are none if the value has another shape.
    """
    if isinstance(value, str):
        return [path], False
    if all(isinstance(part, str) for part in value):
        return [(*path, i) for i in range(len(value))], False
    return [(*path, 0, i) for i in range(len(value[0]))] if len(value) == 1 else [], True


def for_each_fault(paths: Sequence[KeyPath]) -> Fault | None:
    """Return the fault of `for_each` without paths, or with too many."""
    if not paths:
        return SHAPES["for_each"]
    if len(paths) > SLICE_PATHS_MAX:
        hint = "use only the paths that identify a slice"
        return "TRL147", f"`for_each` has {len(paths)} paths, more than {SLICE_PATHS_MAX}", hint
    return None
