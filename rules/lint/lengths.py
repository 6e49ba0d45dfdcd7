"""Paths that end in `length`, which reads a key of that name and not the number of elements."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.predicate import Path, all_conditions, read_paths
from ..model.printer import path_text
from ..model.problem import Problem, listed
from ..model.rule import Rule
from ..packs.yaml.document import Document

_LENGTH = "length"


def length_paths(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Yield a warning for each proposition that reads the `length` of something in arguments or results."""
    users: dict[tuple[str, Path], list[str]] = {}
    for rule in rules:
        for name, predicate in rule.propositions.items():
            paths = [path for _, leaf in all_conditions(predicate) for path in read_paths(leaf)]
            for path in dict.fromkeys(filter(_is_length, paths)):
                users.setdefault((name, path), []).append(rule.id)
    for (name, path), ids in users.items():
        shown, of = path_text(path), path_text(Path(path.field, path.steps[:-1]))
        message = f"`{shown}` is the value of a key `length`, not the number of elements"
        hint = f"write `count({of})` if `{of}` is a list; used by {listed(ids)}"
        yield Problem("TRL513", message, hint, document.location(document.at(("propositions", name, "is"))))


def _is_length(path: Path) -> bool:
    """Return whether the path reads `length` of something else than the arguments themselves."""
    return path.steps[-1:] == (_LENGTH,) and (len(path.steps) > 1 or path.field == "result")
