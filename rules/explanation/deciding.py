"""The parts of a rule that decide it: the temporal ones right below its Boolean operators.

In `always (p -> not r since q)` that is `not r since q`; a rule without such parts has its propositions.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model.formula import BOOLEAN, Op
from .rule_status import VIOLATED_END, PartStatus, RuleStatus

_LEAVES = frozenset({Op.PROP, Op.TRUE, Op.FALSE})


class DecidingParts:
    """The deciding parts of a rule in one run, and at which steps they break it."""

    def __init__(self, status: RuleStatus) -> None:
        root = status.parts[0]
        self._parts = {part.node: part for part in status.parts}
        self._is_repeated = root.formula.op in (Op.ALWAYS, Op.HISTORICALLY) and root.formula.bounds is None
        self._body = self._parts[f"{root.node}.1"] if self._is_repeated else root
        leaves = list(self._below(self._body))
        temporal = tuple(part for part in leaves if part.formula.op not in BOOLEAN)
        self.parts: tuple[PartStatus, ...] = temporal or tuple(leaves)

    def _below(self, part: PartStatus) -> Iterator[PartStatus]:
        """Yield the propositions and temporal parts below the Boolean operators of a part."""
        if part.formula.op not in BOOLEAN - _LEAVES:
            yield part
        else:
            for operand in self._operands(part):
                yield from self._below(operand)

    def _operands(self, part: PartStatus) -> list[PartStatus]:
        return [self._parts[f"{part.node}.{place}"] for place in range(1, len(part.formula.args) + 1)]

    def breaking(self, step: int) -> frozenset[str]:
        """Return the nodes of the parts that make the rule's condition false from a step on."""
        if _is_true(self._body, step) or not (self._is_repeated or step == 1):
            return frozenset()
        return frozenset(self._blamed(self._body, step))

    def _blamed(self, part: PartStatus, step: int) -> Iterator[str]:
        operands = self._operands(part) if part.formula.op in BOOLEAN - _LEAVES else []
        if not operands:
            yield part.node
        value = _is_true(part, step)
        for operand in operands:
            # An operand with the other value does not give `and` and `or` theirs.
            if part.formula.op not in (Op.AND, Op.OR) or _is_true(operand, step) == value:
                yield from self._blamed(operand, step)

    def changes(self, step: int) -> bool:
        """Return whether a part becomes true or false at a step, the first one aside."""
        return step > 1 and any(_is_true(part, step) != _is_true(part, step - 1) for part in self.parts)

    def true_names(self, step: int) -> list[str]:
        """Return the propositions and transition bits of the rule that are true at a step."""
        props = (part for part in self._parts.values() if part.formula.op is Op.PROP)
        return list(dict.fromkeys(part.formula.name for part in props if _is_true(part, step)))


def _is_true(part: PartStatus, step: int) -> bool:
    return int(part.ends[step - 1]) != VIOLATED_END
