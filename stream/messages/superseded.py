"""Activations that supersede earlier ones, such as rules that end every process which loads them.

A later activation names the digests of rule sets that it replaces. Wherever one of those was activated before
it in the same partition, the rules of the later activation come into force instead, at that place. Neither a
monitor nor a replay loads the replaced rules.
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
        if activation.supersedes and digest_of(current.packs) in activation.supersedes:
            current = activation
    return current


def digest_of(packs: Mapping[str, str]) -> str | None:
    """Return the digest of the packs' rule set, None where they have errors; compile nothing."""
    try:
        return rule_set_digest(load_texts(packs))
    except RuleError:
        return None
