"""The named limits of the compiler, and the one error that says which rule ran into which."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.problem import Problem, RuleError


@dataclass(frozen=True, slots=True)
class CompilerLimits:
    """How large a rule's machine, and the search for it, may become."""

    propositions_max: int = 16
    """Propositions of one rule; a word has a bit for each."""
    nodes_max: int = 50_000
    """Nodes of the rule's formula and residuals after bounded operators are written out."""
    delay_max: int = 250
    """Steps that `next` and bounded future operators, nested, look ahead."""
    pending_max: int = 300
    """Obligations that one residual may hold."""
    letters_max: int = 1_024
    """Letter classes that the search tells apart."""
    states_max: int = 1_000
    """Pairs of a residual and a history that the search meets."""
    edges_max: int = 100_000
    """States of the machine, before it is minimised, times letter classes."""
    tableau_max: int = 50_000
    """States of the tableau that decides which residuals can still be satisfied."""
    steps_max: int = 4_000_000
    """Steps of all of the compiler's passes together; a processor of 2026 does a million a second or more."""


DEFAULT = CompilerLimits()

TABLE_LETTERS_MAX = 250
"""Letter classes of a finished table: the kernel's letters are bytes, and a few are reserved."""


RULES_STEPS_MAX = 100_000_000
"""Steps of compiling all the rules of a set together."""


class TooLarge(RuleError):
    """A rule, or a search about it, that runs into a named limit of size or of work.

    `spent` is the work that was done until then, where it is known.
    """

    spent: int = 0


class Work:
    """The work that the searches about one rule have done, in steps: what a pass repeats, never seconds.

    So a rule compiles on every machine or on none. A step is a few operations of Python; what takes longer
    counts as several.
    """

    __slots__ = ("limits", "rule", "spent")

    def __init__(self, rule: str, limits: CompilerLimits = DEFAULT) -> None:
        self.rule = rule
        self.limits = limits
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Count steps. Raises TooLarge where there are more than the limit."""
        self.spent += steps
        if self.spent > self.limits.steps_max:
            hint = "use smaller bounds and fewer operators inside each other, or split the rule"
            raise exceeded(self.rule, "steps of work", self.limits.steps_max, hint)


def exceeded(rule: str, name: str, limit: int, hint: str) -> TooLarge:
    """The error for a rule that does not fit under the limit of that name."""
    message = f"rule {rule} is too large to compile: more than {limit} of {name}"
    return TooLarge((Problem("TRL301", message, hint, None),))


def too_much_together(rules: int) -> TooLarge:
    """Return the error for a rule set whose rules are too much work together."""
    message = f"the {rules} rules take more than {RULES_STEPS_MAX} steps of work to compile"
    return TooLarge((Problem("TRL302", message, "use fewer rules, or smaller bounds", None),))
