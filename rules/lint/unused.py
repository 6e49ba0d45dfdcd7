"""Names of a pack that no rule uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model.problem import Problem, did_you_mean
from ..model.rule import Rule
from ..packs.inheritance import section_entries
from ..packs.memory_section import FIELD
from ..packs.yaml.document import Document, data

_NAME = re.compile(r"\w+")


def unused_names(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Yield a warning for each name of a pack with rules that neither a rule nor `predict` uses."""
    if not rules:
        return
    section = document.value(FIELD)
    predicted = set[str]() if section is None else set(_NAME.findall(str(data(section))))
    for section, used in (
        ("propositions", {name for rule in rules for name in rule.propositions} | predicted),
        ("transitions", {name for rule in rules for name in rule.transitions} | predicted),
    ):
        parent = document.parent
        inherited = set[str]() if parent is None else section_entries(parent, section).keys()
        for name, (key, _) in section_entries(document, section).items():
            if name in used or key.file is not document.file:
                continue
            message = f"unused {section[:-1]} `{name}`"
            hint = "use it, or remove it"
            if name in inherited:
                message += ", which replaces an inherited one"
            elif inherited:
                hint += f"; to replace an inherited one, use that one's name: {did_you_mean(name, inherited)}"
            yield Problem("TRL509", message, hint, document.location(key))
