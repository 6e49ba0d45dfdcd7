"""Two chains compared, rule by rule."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...predict.error import PredictError
from ...predict.folder.chain_rules import chain_rules
from ...predict.folder.load import load_chain
from ...predict.validation.behaviour import BehaviourChange, behaviour_change
from ...schemas.verdict import Severity


@dataclass(frozen=True, slots=True)
class ComparedChains:
    """The changes of the rules that both chains have; `left_out` names the others.

    `chain` and `successor` are digests. The intervals of all rules hold together with `confidence`.
    """

    chain: str
    successor: str
    confidence: float
    changes: tuple[BehaviourChange, ...]
    severities: tuple[Severity, ...]
    left_out: tuple[str, ...]


def compared_chains(chain: Path, successor: Path) -> ComparedChains:
    """Compare two chains. Raises PredictError where one is none, and TRL803 where they share no rule."""
    first, second = (chain_rules(load_chain(each)) for each in (chain, successor))
    places = {(each.pack, each.rule, each.rule_digest): place for place, each in enumerate(second.counted)}
    pairs = [
        (place, places[key])
        for place, each in enumerate(first.counted)
        if (key := (each.pack, each.rule, each.rule_digest)) in places
    ]
    if not pairs:
        hint = "compare two chains that were learned from the same rules"
        raise PredictError("TRL803", first.chain.where, f"no rule is also in {second.chain.where}", hint)
    confidence = min(first.chain.confidence, second.chain.confidence)
    error = (1 - confidence) / max(2 * len(pairs), 1)
    taken = [{left for left, _ in pairs}, {right for _, right in pairs}]
    left_out = {
        f"{each.pack}/{each.rule}"
        for rules, known in zip((first, second), taken, strict=True)
        for place, each in enumerate(rules.counted)
        if place not in known
    }
    return ComparedChains(
        chain=first.chain.digest,
        successor=second.chain.digest,
        confidence=confidence,
        changes=tuple(
            behaviour_change(
                first.counted[left],
                second.counted[right],
                first.violating(left, error),
                second.violating(right, error),
            )
            for left, right in pairs
        ),
        severities=tuple(first.watched.rules[left].severity for left, _ in pairs),
        left_out=tuple(sorted(left_out)),
    )
