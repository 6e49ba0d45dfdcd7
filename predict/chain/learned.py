"""A rule's part of a learned chain, as learning hands it on to estimation and to what may be believed."""

from __future__ import annotations

from dataclasses import dataclass

from .contexts import Contexts, RuleCounts, SymbolSet
from .steps import StepTable
from .walks import Walks


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of one rule over an archive.

    `counts` are of the sessions that the chain learns from, `walks` of those held out (of those learned from
    where none are held out). `contexts` has those of both. `agents` are the names that contexts number.
    """

    pack: str
    rule: str
    rule_digest: str
    agents: tuple[str, ...]
    symbols: SymbolSet
    steps: StepTable
    contexts: Contexts
    counts: RuleCounts
    walks: Walks
