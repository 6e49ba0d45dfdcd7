"""`tracline predict show`: the contexts of a chain by their risk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from ...options import Command, format_option
from ...terminal import clean, quoted

if TYPE_CHECKING:
    from ....predict.folder.learned_chain import LearnedChain, RuleChain
    from ....predict.folder.pattern_risks import PatternContext
    from ....predict.folder.riskiest import ShownContext


@click.command(cls=Command)
@click.argument("chain", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--rule", metavar="RULE", help="Only this rule, as PACK/ID or ID.")
@click.option(
    "--within",
    metavar="K|ever",
    help="The horizon: events, or `ever`.  [default: the chain's greatest number of events]",
)
@click.option(
    "--pattern",
    metavar="FORMULA",
    help="The probability of a pattern over `violated`, `satisfied`, `unmet` and `held`, for any K.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="The number of contexts.",
)
@format_option("table", "json")
def command(
    chain: Path, rule: str | None, within: str | None, pattern: str | None, top: int, format: str
) -> None:
    """Print the contexts of CHAIN with the greatest risks.

    A context is the last event, and what the rule and the memory formulas remember. The interval is that of
    the sessions that came to the context, whatever the chain believes; without such sessions it is 0 to 1.

    With --pattern the risk is the probability that the verdicts of the next K events make the formula true.
    No interval is claimed for it.

    \b
        tracline predict show desk.chain --rule confirm-before-refund --top 5
        tracline predict show desk.chain --pattern 'eventually satisfied' --within 8
    """
    from ....predict.folder.load import load_chain
    from ....predict.folder.riskiest import riskiest

    loaded = load_chain(chain)
    if pattern is not None:
        _show_pattern(loaded, rules_of(loaded, rule), pattern, within, top, format)
        return
    horizon = horizon_of(loaded, within)
    found = riskiest(rules_of(loaded, rule), horizon, top)
    for line in json_lines(found) if format == "json" else table_lines(found, horizon):
        click.echo(line)


def _show_pattern(
    chain: LearnedChain, rules: list[RuleChain], text: str, within: str | None, top: int, format: str
) -> None:
    from ....predict.folder.pattern_risks import likeliest
    from ....predict.risk.pattern import read_pattern

    pattern, horizon = read_pattern(text), events_of(chain, within)
    found = likeliest(chain, rules, pattern, horizon, top)
    for line in json_lines(found) if format == "json" else pattern_lines(found, horizon, text):
        click.echo(line)


def rules_of(chain: LearnedChain, name: str | None) -> list[RuleChain]:
    """Return the rules of that name, all by default. Raises UsageError where there is none."""
    rules = [rule for rule in chain.rules.values() if name in (None, rule.rule, f"{rule.pack}/{rule.rule}")]
    if not rules:
        names = ", ".join(f"{pack}/{rule}" for pack, rule in chain.rules)
        raise click.UsageError(quoted(f"CHAIN has no rule {name}; it has {names}."))
    return rules


def horizon_of(chain: LearnedChain, text: str | None) -> int | None:
    """Return the horizon of the option. Raises UsageError where the chain lacks it."""
    known = {"ever" if each is None else str(each): each for each in chain.horizons}
    finite = [name for name, each in known.items() if each is not None]
    chosen = text if text is not None else (finite[-1] if finite else "ever")
    if chosen not in known:
        raise click.UsageError(quoted(f"CHAIN has no horizon {chosen}; it has {', '.join(known)}."))
    return known[chosen]


def events_of(chain: LearnedChain, text: str | None) -> int | None:
    """Return the horizon of a pattern: by default the chain's greatest number of events, None for ever.

    Raises UsageError for anything but a number of events or `ever`.
    """
    from ....predict.chain.risks import HORIZON_MAX

    if text is None:
        return max(each for each in chain.horizons if each is not None)
    if text == "ever":
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 0 < number <= HORIZON_MAX:
        what = f"--within {text} with --pattern: give a number of events from 1 to {HORIZON_MAX:,}, or ever."
        raise click.UsageError(quoted(what))
    return number


def json_lines(contexts: Iterable[ShownContext | PatternContext]) -> Iterator[str]:
    """Yield a JSON object for each context."""
    for each in contexts:
        yield orjson.dumps(each).decode()


def table_lines(contexts: Sequence[ShownContext], within: int | None) -> Iterator[str]:
    """Yield a heading, and two lines for each context: its numbers, and its texts."""
    yield f"{'risk':>8}  {'interval':<17}  {'violating':>9}  {'sessions':>8}  rule, within {within or 'ever'}"
    for each in contexts:
        interval = f"{each.low:.4f} to {each.high:.4f}"
        name = clean(f"{each.pack}/{each.rule}")
        yield f"{each.risk:8.4f}  {interval:<17}  {each.violating:>9,}  {each.sessions:>8,}  {name}"
        yield _context_line(each)


def pattern_lines(contexts: Sequence[PatternContext], within: int | None, text: str) -> Iterator[str]:
    """Yield a heading, and two lines for each context: the probability of the pattern, and its texts."""
    yield clean(f"{'risk':>8}  rule, within {within or 'ever'}: {text}")
    for each in contexts:
        yield clean(f"{each.risk:8.4f}  {each.pack}/{each.rule}")
        yield _context_line(each)


def _context_line(context: ShownContext | PatternContext) -> str:
    agent = f" by {context.agent}" if context.agent else ""
    memory = f", remembering {context.memory}" if context.memory else ""
    return clean(f"          after {context.symbol}{agent}{memory}, to come: {context.residual}")
