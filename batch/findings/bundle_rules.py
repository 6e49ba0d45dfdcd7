"""The rules of a bundle, from the packs in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ...rules.model.digest import rule_digest
from ...rules.model.rule import Rule
from ...rules.packs.load import load_packs
from ..evidence.bundle import RULES

RuleKey = tuple[str, str, str]
"""The pack, id and digest of a rule."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


def bundle_rules(bundle: Path) -> dict[RuleKey, Rule]:
    """Return the bundle's rules by pack, id and digest; a bundle as judged has several sets of rules."""
    folder = bundle / RULES
    sets = sorted(path for path in folder.glob("*") if _DIGEST.fullmatch(path.name))
    rules = [rule for path in sets or [folder] for rule in load_packs([str(path)]).rules]
    return keyed((rule, rule_digest(rule)) for rule in rules)


def keyed(rules: Iterable[tuple[Rule, str]]) -> dict[RuleKey, Rule]:
    """Return rules, each with its digest, by pack, id and digest."""
    return {(rule.pack, rule.id, digest): rule for rule, digest in rules}
