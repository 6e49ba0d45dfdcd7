"""Activations that supersede others: the way past rules that end every process that tries them.

A later activation names the digests of rule sets that are not to come into force. Wherever one of those
stands before it in the same partition, its own rules come into force instead, at that place. No monitor loads
the rules that it replaces, and no replay that finds the later activation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...rules.model.digest import rule_set_digest
from ...rules.model.problem import RuleError
from ...rules.packs.load import load_texts
from ..error import StreamError
from .codec import Activation, Damaged, decode


def activation_in(value: bytes) -> Activation | None:
    """Return the activation that a record of the events topic holds, if it holds one."""
    # Every activation has its tag as text: records of events, which are most, are not decoded for it.
    if b"activation" not in value:
        return None
    try:
        message = decode(value)
    except (Damaged, StreamError):
        return None
    return message if isinstance(message, Activation) else None


def in_force(activation: Activation, later: Iterable[Activation]) -> Activation:
    """Return the activation whose rules come into force at the place of this one.

    `later` are those behind it in its partition, in their order.
    """
    current = activation
    for other in later:
        if other.supersedes and digest_of(current.packs) in other.supersedes:
            current = other
    return current


def digest_of(packs: Mapping[str, str]) -> str | None:
    """Return the digest of the packs' rule set, None where they have errors. Compiles nothing."""
    try:
        return rule_set_digest(load_texts(packs))
    except RuleError:
        return None
