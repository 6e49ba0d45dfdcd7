"""The end of `tracline demo`: a chain learned from its archive, and the contexts of the greatest risk."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ....predict.explaining.words import percent
from ....rules.model.problem import counted

if TYPE_CHECKING:
    from ....predict.folder.learned_chain import LearnedChain
    from ....predict.folder.riskiest import ShownContext
    from ....rules.model.rule import RuleSet

WITHIN = 5
CONTEXTS_SHOWN = 3


def riskiest_contexts(archive: Path, rule_set: RuleSet, out: Path) -> Iterator[str]:
    """Learn a chain into the folder `out`, and yield lines on its riskiest contexts.

    A line states why there is none where SciPy is not installed, or where too few conversations closed.
    """
    if find_spec("scipy") is None:
        yield "No chain was learned: the extra `predict` is not installed."
        return
    from ....predict.error import PredictError
    from ....predict.folder.load import load_chain
    from ....predict.folder.riskiest import riskiest

    try:
        _learn(archive, rule_set, out)
    except PredictError as error:
        yield f"No chain was learned: {error.what}."
        return
    chain = load_chain(out)
    learned = chain.document["learned"]
    yield f"A chain learned from {learned:,} of the conversations gives the risk within {WITHIN} events."
    yield "The riskiest contexts, by the lower limit of their risk in the held-out conversations:"
    every = riskiest(chain.rules.values(), WITHIN)
    for context in sorted(every, key=lambda each: -each.low)[:CONTEXTS_SHOWN]:
        yield ""
        yield from _context(chain, context)


def _learn(archive: Path, rule_set: RuleSet, out: Path) -> None:
    """Learn the chain as `tracline predict learn` does by default."""
    from ....batch.prediction.chain_folder import write_learned
    from ....batch.prediction.source_archive import source_archive
    from ....predict.learning.learn import learn

    with source_archive(archive) as sessions:
        write_learned(out, learn(sessions, rule_set))


def _context(chain: LearnedChain, context: ShownContext) -> Iterator[str]:
    """Yield the lines of one context: its risk, its interval, and what a warning there would have been."""
    rule = chain.rule(context.pack, context.rule)
    yield f"  {percent(context.risk):>7}  {context.rule}"
    memory = f", remembering {context.memory}" if context.memory else ""
    yield f"           after {context.symbol}{memory}"
    if not context.sessions:
        yield "           no held-out conversation reached it"
        return
    interval = f"{percent(context.low)} to {percent(context.high)}"
    yield (
        f"           {context.violating:,} of {context.sessions:,} held-out conversations broke it later"
        f" ({interval}):"
    )
    false_warnings = counted(context.sessions - context.violating, "false warning")
    yield (
        f"           a warning there precedes {context.violating:,} of {rule.violating:,} breaches,"
        f" with {false_warnings}"
    )
