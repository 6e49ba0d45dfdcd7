"""Warnings about inherited rules: replaced names that no longer fit what was inherited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..compiler.limits import Work
from ..model.fields import FIELDS
from ..model.machine import Machine
from ..model.predicate import And, Leaf, Predicate, Test
from ..model.problem import Problem, counted
from ..model.rule import Rule
from ..packs.examples import run_examples
from ..packs.inheritance import extends_node, overrides, pack_name, section_entries
from ..packs.yaml_document import Document, ScalarNode
from .satisfiability import KIND, is_satisfiable, satisfiable_with_steps

KIND_NOUNS = {
    "user": "user messages",
    "assistant": "assistant messages",
    "tool_call": "tool calls",
    "tool_result": "tool results",
    "unknown": "messages that were not captured",
}
"""The kinds of events, in words."""


def widened_propositions(
    rules: Sequence[Rule], bases: Mapping[str, Rule], document: Document
) -> Iterator[Problem]:
    """Yield a warning for each replaced proposition that is true of more kinds of events than the inherited.

    `bases` are the rules of the pack that the document extends, by their ids.
    """
    changed = overrides(document)
    for name in () if changed is None else changed.replaced["propositions"]:
        users = [rule for rule in rules if rule.id in bases and name in rule.propositions]
        pairs = [(bases[rule.id].propositions.get(name), rule.propositions[name]) for rule in users]
        inherited, own = next((pair for pair in pairs if pair[0] is not None), (None, None))
        if inherited is None or own is None:
            continue
        former = _kinds(inherited)
        added = [KIND_NOUNS[kind] for kind in _kinds(own) if kind not in former]
        if added and former:
            words = " and ".join(KIND_NOUNS[kind] for kind in former)
            message = f"`{name}` can be true of {' and '.join(added)}, and the inherited one only of {words}"
            hint = f'say which events are meant, as in `kind == "{former[0]}" and ...`; it is used by '
            hint += ", ".join(f"`{rule.id}`" for rule in users)
            yield Problem(
                "TRL511", message, hint, document.location(section_entries(document, "propositions")[name][0])
            )


def outdated_examples(
    rule: Rule, machine: Machine, base: Rule, document: Document, work: Work
) -> Iterator[Problem]:
    """Yield the warnings about the examples of an inherited rule that no longer fit.

    `base` is the same rule in the pack that the document extends. Raises TooLarge where the search takes
    more than `work` allows.
    """
    link = extends_node(document)
    assert link is not None, "an inherited rule is of a pack that extends another"
    if (rule.formula, rule.transitions, rule.steps) != (base.formula, base.transitions, base.steps):
        failed = sum(not run.passed for run in run_examples(rule, machine))
        if failed:
            verb = "holds" if failed == 1 else "hold"
            message = f"{counted(failed, 'example')} of the inherited rule `{rule.id}` no longer {verb}"
            hint = "with this pack's operators and transitions the rule says something else; "
            hint += f"`tracline test` shows how: mend them, or `drop: [{rule.id}]` and write the rule anew"
            yield Problem("TRL512", message, hint, document.location(link))
    for one, other in _apart(rule, base, work):
        location = document.location(_replaced(document, one) or _replaced(document, other) or link)
        message = (
            f"no event makes both `{one}` and `{other}` true, and examples of `{rule.id}` have one that does"
        )
        hint = (
            f"in `{pack_name(document)}` and in the pack it extends they are to mean the same: replace both"
        )
        yield Problem("TRL512", message, hint, location)


def _apart(rule: Rule, base: Rule, work: Work) -> Iterator[tuple[str, str]]:
    """Yield pairs of propositions that examples have together, as the base's events can, and none can now."""
    steps = [step for session in (*rule.examples.violated, *rule.examples.holds) for step in session]
    pairs = dict.fromkeys((one, other) for step in steps for one in sorted(step) for other in sorted(step))
    for one, other in pairs:
        known = {one, other} <= rule.propositions.keys() & base.propositions.keys()
        if (
            one < other
            and known
            and not _together(rule, one, other, work)
            and _together(base, one, other, work)
        ):
            yield one, other


def _together(rule: Rule, one: str, other: str, work: Work) -> bool:
    answer, steps = satisfiable_with_steps(And((rule.propositions[one], rule.propositions[other])))
    work.spend(steps)
    return answer


def _kinds(predicate: Predicate) -> list[str]:
    """Return the kinds of events of which the predicate can be true."""
    kinds = FIELDS["kind"].choices
    return [kind for kind in kinds if is_satisfiable(And((Leaf(KIND, Test.EQ, (kind,)), predicate)))]


def _replaced(document: Document, name: str) -> ScalarNode | None:
    """Return the key of a proposition that the document's own file defines."""
    key = section_entries(document, "propositions").get(name, (None, None))[0]
    return key if key is not None and key.file is document.file else None
