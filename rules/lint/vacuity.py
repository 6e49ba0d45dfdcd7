"""Vacuous truth: propositions that are true of events which never have the field that they test.

`tool not in ["refund"]` is true of every message, since no message has a tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

from ..labels.guards import TRUE, as_predicate
from ..model.fields import FIELDS, KIND_NOUNS
from ..model.predicate import Condition, Path, Predicate, leaves
from ..model.problem import Problem, listed
from ..model.rule import Rule
from ..packs.yaml.document import Document
from .satisfiability import KIND, MISSING, ValueClass, evaluate_leaf, evaluate_predicate, value_classes

EVALUATIONS_MAX = 20_000
"""Evaluated leaves after which the search gives up and finds nothing."""

KINDS = FIELDS["kind"].choices


KIND_WITH = {"text": "user", "result": "tool_result"}
"""For a field that tool calls do not have, a kind that has it."""


def vacuous_propositions(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Yield a warning for each proposition that is vacuously true of events without a field."""
    users: dict[str, list[str]] = {}
    found: dict[str, tuple[str, str]] = {}
    for rule in rules:
        steps = TRUE if rule.steps is None else as_predicate(rule.steps, rule.propositions)
        for name, predicate in rule.propositions.items():
            vacuity = find_vacuity(predicate, steps)
            if vacuity is not None:
                found.setdefault(name, vacuity)
                users.setdefault(name, []).append(rule.id)
    for name, (kind, missing) in found.items():
        message = f"proposition `{name}` can be true of {KIND_NOUNS[kind]}, which never have `{missing}`"
        hint = f'add the kind of the event, as in `kind == "{KIND_WITH.get(missing, "tool_call")}" and ...`'
        location = document.location(document.at(("propositions", name, "is")))
        yield Problem("TRL510", message, f"{hint}; used by {listed(users[name])}", location)


@lru_cache(maxsize=4096)
def find_vacuity(predicate: Predicate, steps: Predicate) -> tuple[str, str] | None:
    """Return a kind of events and a field that they never have, if the predicate is vacuously true of them.

    It is if some event of that kind makes the predicate true but would not with some value in the field, the
    event's kind does not matter there, `steps` includes the kind, and some event with the field makes the
    predicate true, too. So `kind == "user" and tool != "x"` is not vacuous, nor is `text contains "x" and
    tool is null`, whose text selects the events.
    """
    search = _VacuitySearch(predicate, list(dict.fromkeys(leaves(predicate))))
    for kind in KINDS:
        lacking = [path for path in search.paths if kind not in FIELDS[path.field].kinds]
        if not lacking or evaluate_predicate(steps, {KIND: ValueClass(kind)}) is False:
            continue
        if search.is_vacuous_at(kind, lacking) and search.holds_with_fields(lacking):
            return kind, lacking[0].field
    return None


@dataclass(slots=True)
class _VacuitySearch:
    """A search over the events that a predicate distinguishes, up to `EVALUATIONS_MAX`."""

    predicate: Predicate
    tested: list[Condition]
    evaluations: int = 0
    paths: list[Path] = field(init=False)
    classes: dict[Path, list[ValueClass]] = field(default_factory=dict[Path, list[ValueClass]])

    def __post_init__(self) -> None:
        self.paths = [path for path in dict.fromkeys(leaf.path for leaf in self.tested) if path != KIND]

    def is_vacuous_at(self, kind: str, lacking: list[Path]) -> bool:
        """Return whether the predicate is true of some event of the kind, but not with the lacking fields."""
        missing = dict.fromkeys(lacking, MISSING)
        if any(
            evaluate_predicate(self.predicate, {**missing, KIND: ValueClass(kind_guess)}) is False
            for kind_guess in KINDS
        ):
            return False
        present_paths = [path for path in self.paths if path not in missing]
        return any(
            self._holds_at_every_kind(event | missing, guess) and self._fails_with(lacking, event, guess)
            for event, guess in self._events(kind, present_paths)
        )

    def holds_with_fields(self, lacking: list[Path]) -> bool:
        """Return whether the predicate is true of some event that has one of these fields."""
        kinds = {kind for path in lacking for kind in FIELDS[path.field].kinds}
        return any(
            evaluate_predicate(self.predicate, event | fields, {**guess, **field_guess})
            for kind in KINDS
            if kind in kinds and evaluate_predicate(self.predicate, {KIND: ValueClass(kind)}) is not False
            for fields, field_guess in self._events(kind, lacking, present=True)
            for event, guess in self._events(kind, [path for path in self.paths if path not in lacking])
        )

    def _holds_at_every_kind(self, event: Mapping[Path, ValueClass], guess: Mapping[Condition, bool]) -> bool:
        return all(
            evaluate_predicate(self.predicate, {**event, KIND: ValueClass(kind)}, guess) for kind in KINDS
        )

    def _fails_with(
        self, lacking: list[Path], event: Mapping[Path, ValueClass], guess: Mapping[Condition, bool]
    ) -> bool:
        return any(
            evaluate_predicate(self.predicate, {**event, **fields}, {**guess, **field_guess}) is False
            for fields, field_guess in self._events(None, lacking, present=True)
        )

    def _events(
        self, kind: str | None, paths: list[Path], *, present: bool = False
    ) -> Iterator[tuple[dict[Path, ValueClass], dict[Condition, bool]]]:
        """Yield events of the kind, if given: values of the paths, and guesses of the unknown leaves.

        With `present`, the fields that the kind has are not missing.
        """
        choices = [self._choices(kind, path, present=present) for path in paths]
        start: dict[Path, ValueClass] = {} if kind is None else {KIND: ValueClass(kind)}
        for values in product(*choices):
            event = start | dict(zip(paths, values, strict=True))
            used = [leaf for leaf in self.tested if leaf.path in paths]
            unsure = [leaf for leaf in used if evaluate_leaf(leaf, event[leaf.path]) is None]
            for guess in product((False, True), repeat=len(unsure)):
                self.evaluations += len(self.tested)
                if self.evaluations > EVALUATIONS_MAX:
                    return
                yield event, dict(zip(unsure, guess, strict=True))

    def _choices(self, kind: str | None, path: Path, *, present: bool) -> list[ValueClass]:
        if kind is not None and kind not in FIELDS[path.field].kinds:
            return [MISSING]
        if path not in self.classes:
            self.classes[path] = value_classes(path, self.tested)
        may_miss = bool(path.steps) or not present
        return [value_class for value_class in self.classes[path] if may_miss or value_class is not MISSING]
