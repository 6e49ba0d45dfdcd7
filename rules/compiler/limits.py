"""The named limits of the compiler, and the error of a rule that exceeds one."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.problem import Problem, RuleError


@dataclass(frozen=True, slots=True)
class CompilerLimits:
    """The limits of a rule's machine and of the search for it."""

    propositions_max: int = 16
    """Propositions of one rule; a word has a bit for each."""
    nodes_max: int = 50_000
    """Nodes of the rule's formula and residuals after bounded operators are written out."""
    delay_max: int = 250
    """Steps that `next` and bounded future operators, nested, look ahead."""
    pending_max: int = 300
    """Obligations that one residual may hold."""
    letters_max: int = 1_024
    """Letter classes in the search."""
    states_max: int = 1_000
    """Pairs of a residual and a history in the search."""
    edges_max: int = 100_000
    """States of the machine, before it is minimised, times letter classes."""
    tableau_max: int = 50_000
    """States of the tableau that decides which residuals can still be satisfied."""
    steps_max: int = 4_000_000
    """Steps of all of the compiler's passes together; a processor of 2026 does a million a second or more."""


DEFAULT = CompilerLimits()

FOLLOWED_STATES_MAX = 64
"""States of a machine that follows unknown propositions: a set of them is one word."""

TABLE_LETTERS_MAX = 250
"""Letter classes of a finished table: the kernel's letters are bytes, and a few are reserved."""


RULES_STEPS_MAX = 100_000_000
"""Steps of compiling all the rules of a set together."""


class TooLarge(RuleError):
    """An error of a rule, or a search about it, that exceeds a named limit of size or of work.

    `spent` is the work done until then, where it is known.
    """

    spent: int = 0


class Work:
    """The work that the searches about one rule have done, counted in steps.

    Steps are not seconds, so that a rule compiles on every machine or on none. A step is a few operations of
    Python; longer ones count as several steps.
    """

    __slots__ = ("limits", "rule", "spent")

    def __init__(self, rule: str, limits: CompilerLimits = DEFAULT) -> None:
        self.rule = rule
        self.limits = limits
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Count steps. Raises TooLarge beyond the limit."""
        self.spent += steps
        if self.spent > self.limits.steps_max:
            hint = "use smaller bounds and fewer operators inside each other, or split the rule"
            raise exceeded(self.rule, "steps of work", self.limits.steps_max, hint)


def exceeded(rule: str, name: str, limit: int, hint: str) -> TooLarge:
    """Return the error for a rule that exceeds the limit of that name."""
    message = f"rule {rule} is too large to compile: more than {limit} of {name}"
    return TooLarge((Problem("TRL301", message, hint, None),))


def too_much_together(rules: int) -> TooLarge:
    """Return the error for a rule set whose rules take too much work together."""
    message = f"the {rules} rules take more than {RULES_STEPS_MAX} steps of work to compile"
    return TooLarge((Problem("TRL302", message, "use fewer rules, or smaller bounds", None),))


def cannot_follow(rule: str, states: int) -> TooLarge:
    """Return the error for a rule whose machine has too many states to follow unknown propositions."""
    message = f"rule {rule} cannot follow unknown propositions: its machine has {states} states, more than "
    hint = "add `unknown: stop` to the rule, which is then unjudged from an unknown on; or use smaller bounds"
    return TooLarge((Problem("TRL304", message + str(FOLLOWED_STATES_MAX), hint, None),))
