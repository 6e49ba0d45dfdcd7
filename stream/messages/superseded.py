"""Activations that supersede earlier ones, such as rules that end every process which loads them.

A later activation names the digests of rule sets that it replaces. Wherever one of those was activated before
it in the same partition, the rules of the later activation come into force instead, at that place. Neither a
monitor nor a replay loads the replaced rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...rules.model.digest import rule_set_digest
from ...rules.model.problem import RuleError
from ...rules.model.rule import stopping
from ...rules.packs.load import load_texts
from ..error import StreamError
from .codec import Activation, Damaged, decode


def activation_in(value: bytes) -> Activation | None:
    """Return the activation that a record of the events topic holds, if it holds one."""
    # Every activation has its tag as text, so that most records need not be decoded.
    if b"activation" not in value:
        return None
    try:
        message = decode(value)
    except (Damaged, StreamError):
        return None
    return message if isinstance(message, Activation) else None


def in_force(activation: Activation, later: Iterable[Activation]) -> Activation:
    """Return the activation whose rules come into force in place of this one.

    `later` are the activations after it in its partition, in their order.
    """
    current = activation
    for activation in later:
        if activation.supersedes and not digests_of(current.packs).isdisjoint(activation.supersedes):
            current = activation
    return current


def digest_of(packs: Mapping[str, str]) -> str | None:
    """Return the digest of the packs' rule set, None where they have errors; compile nothing."""
    return next(iter(_digests(packs)), None)


def digests_of(packs: Mapping[str, str]) -> frozenset[str]:
    """Return the digests by which this release and the one before name the packs' rule set."""
    return frozenset(_digests(packs))


def _digests(packs: Mapping[str, str]) -> Iterator[str]:
    try:
        rule_set = load_texts(packs)
    except RuleError:
        return
    yield rule_set_digest(rule_set)
    yield rule_set_digest(stopping(rule_set))
