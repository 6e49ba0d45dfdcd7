"""Selection of rules by id, tag and severity."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from ..model.problem import Problem, RuleError, did_you_mean
from ..model.rule import Rule, RuleSet


def select_rules(rule_set: RuleSet, select: Collection[str], ignore: Collection[str]) -> RuleSet:
    """Return the rule set with the rules that a word of `select` names (all if there is none), less `ignore`.

    A word names rules by their id, `pack/id`, pack, tag or severity; `*` stands for any characters. Raises
    RuleError (TRL226) for a word that names no rule, and if no rule is left.
    """
    words = {"select": tuple(select), "ignore": tuple(ignore)}
    problems = [
        _unknown(option, word, rule_set)
        for option, given in words.items()
        for word in given
        if not any(_matches(word, rule) for rule in rule_set.rules)
    ]
    rules = tuple(
        rule
        for rule in rule_set.rules
        if (not select or any(_matches(word, rule) for word in select))
        and not any(_matches(word, rule) for word in ignore)
    )
    if not rules and not problems:
        hint = "remove words of --ignore, or select more"
        problems = [Problem("TRL226", "the selection leaves no rule", hint)]
    if problems:
        raise RuleError(problems)
    selection: Mapping[str, tuple[str, ...]] = {option: given for option, given in words.items() if given}
    return replace(rule_set, rules=rules, selection=selection)


def _matches(word: str, rule: Rule) -> bool:
    """Return whether the word names the rule."""
    return any(fnmatchcase(name, word) for name in _names(rule))


def _names(rule: Rule) -> tuple[str, ...]:
    return rule.id, f"{rule.pack}/{rule.id}", rule.pack, rule.severity.value, *rule.tags


def _unknown(option: str, word: str, rule_set: RuleSet) -> Problem:
    """Return the problem of a word that names no rule."""
    known = sorted({name for rule in rule_set.rules for name in _names(rule)})
    return Problem(
        "TRL226", f"--{option}: no rule, tag or severity is named `{word}`", did_you_mean(word, known)
    )
