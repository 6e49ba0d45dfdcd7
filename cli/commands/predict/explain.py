"""`tracline predict explain`: why a session's risk is what it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import orjson

from ...options import Command, format_option
from ...terminal import clean, quoted
from .archive_source import archive_options, read_chain_and_archive

if TYPE_CHECKING:
    from ....batch.prediction.chain_archive import CountedArchive
    from ....batch.prediction.explained import ExplainedRisk, SequenceRisks
    from ....predict.explaining.explanation import RiskExplanation
    from ....predict.folder.chain_rules import ChainRules
    from ....predict.risk.pattern import Pattern

HORIZON_MAX = 1_000
"""The most events of a horizon."""

Risky = tuple[str, "ExplainedRisk"]


class ExplanationChoice(NamedTuple):
    """The choice of an explanation: session, rule, event and pattern, number of paths, and their examples."""

    session: str
    rule: str | None
    at: int | None
    pattern: Pattern | None
    paths: int
    examples: bool


@click.command(cls=Command)
@archive_options()
@click.option("--session", required=True, metavar="ID", help="The session.")
@click.option("--rule", metavar="RULE", help="The rule, as PACK/ID or ID.  [default: the riskiest]")
@click.option(
    "--at", type=click.IntRange(min=0), metavar="N", help="After the rule's event N.  [default: the riskiest]"
)
@click.option(
    "--within",
    metavar="K|ever",
    help="The horizon: events, or `ever`.  [default: the chain's greatest number of events]",
)
@click.option(
    "--paths",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    metavar="N",
    help="The number of violating continuations.",
)
@click.option(
    "--pattern",
    metavar="FORMULA",
    help="Explain the probability of a pattern over `violated`, `satisfied`, `unmet` and `held` instead.",
)
@click.option("--examples", is_flag=True, help="Name a session of ARCHIVE that went each way.")
@format_option("table", "json")
def command(
    chain: Path,
    archive: tuple[str, ...],
    session: str,
    rule: str | None,
    at: int | None,
    within: str | None,
    paths: int,
    pattern: str | None,
    examples: bool,
    timezone: str,
    allow_rejected: int,
    format: str,
) -> None:
    """Explain the risk of a session of ARCHIVE by CHAIN.

    Prints the risk over the session's events and its rises, the most probable continuations that violate the
    rule, and the next events that would raise or lower the risk, by who acts. Events count in the sequence
    that the rule steps on; a rule with slices has several, and the riskiest is explained.

    With --pattern the risk is the probability that the verdicts of the next K events make the formula true.

    \b
        tracline predict explain desk.chain archive/ --session chat-0000017 --rule confirm-before-refund
    """
    from ....predict.risk.pattern import read_pattern

    asked = None if pattern is None else read_pattern(pattern)
    choice = ExplanationChoice(session, rule, at, asked, paths, examples)
    rules, counted = read_chain_and_archive(chain, archive, timezone, allow_rejected)
    if session not in counted.ids:
        raise click.UsageError(quoted(f"ARCHIVE has no session {session}."))
    name, riskiest = riskiest_of(rules, counted, choice, within)
    if format == "json":
        document = {"chain": rules.chain.digest, "session": session, "rule": name}
        document |= ({} if pattern is None else {"pattern": pattern}) | as_json(riskiest)
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    for line in table_lines(session, name, riskiest, pattern):
        click.echo(clean(line))


def horizon_of(rules: ChainRules, within: str | None) -> int | None:
    """Return the horizon that is given, or the chain's greatest number of events."""
    if within == "ever":
        return None
    if within is None:
        return max(each for each in rules.chain.horizons if each is not None)
    number = int(within) if within.isascii() and within.isdigit() and len(within) < 10 else 0
    if not 0 < number <= HORIZON_MAX:
        raise click.BadParameter(f"{within!r} is not a number of events up to {HORIZON_MAX:,}, or ever")
    return number


def riskiest_of(
    rules: ChainRules, counted: CountedArchive, choice: ExplanationChoice, within: str | None
) -> Risky:
    """Return the name and the explanation of the chosen rule with the greatest risk."""
    names, rule = [f"{each.pack}/{each.rule}" for each in rules.counted], choice.rule
    places = [place for place, name in enumerate(names) if rule in (None, name, name.split("/")[1])]
    if not places:
        raise click.UsageError(quoted(f"CHAIN has no rule {rule}; it has {', '.join(names)}."))
    events = horizon_of(rules, within)
    found = [risky for place in places if (risky := explained(rules, counted, place, choice, events))]
    if not found:
        raise click.UsageError("No rule has a risk after such an event of the session.")
    return max(found, key=lambda each: each[1].explanation.risk)


def explained(
    rules: ChainRules, counted: CountedArchive, place: int, choice: ExplanationChoice, within: int | None
) -> Risky | None:
    """Return the name of a rule with its explanation, None where it has no risk at the event."""
    from ....batch.prediction.explained import session_rule

    learned = rules.counted[place]
    estimate = rules.rules[place].estimate(learned)
    unseen = rules.rules[place].unseen_estimate(learned)
    rule = session_rule(learned, estimate, unseen, counted.counted[place], within, choice.pattern)
    best: tuple[float, int, SequenceRisks] | None = None
    for sequence in rule.sequences(counted.ids.index(choice.session)):
        event = sequence.riskiest if choice.at is None else choice.at
        if event is None or event >= len(sequence.places):
            continue
        risk = sequence.places[event].risk
        if risk is not None and (best is None or risk > best[0]):
            best = risk, event, sequence
    if best is None:
        return None
    ids = counted.ids if choice.examples else None
    return f"{learned.pack}/{learned.rule}", rule.explain(best[2], best[1], choice.paths, ids)


def as_json(found: ExplainedRisk) -> dict[str, Any]:
    """Return an explanation as JSON values."""
    from ...render.prediction import json_value

    explanation = found.explanation
    return {
        "within": explanation.within,
        "at": found.at,
        "risk": explanation.risk,
        "events": [json_value(each) for each in found.sequence.places],
        "rises": [json_value(each) for each in found.sequence.rises],
        "paths": [
            {**json_value(path), "session": session}
            for path, session in zip(explanation.paths, found.sessions, strict=True)
        ],
        "covered": explanation.covered,
        "nexts": [json_value(each) for each in explanation.nexts],
    }


def table_lines(session: str, name: str, found: ExplainedRisk, pattern: str | None) -> Iterator[str]:
    """Yield the explanation in words; with a pattern, of its probability."""
    from ....predict.explaining.words import horizon, percent
    from ...render.prediction import aligned_lines

    explanation, places = found.explanation, found.sequence.places
    yield f"{session}: {name}, {horizon(explanation.within)}{'' if pattern is None else f': {pattern}'}"
    yield ""
    yield from aligned_lines(
        ("event", "risk", "symbol", "due"),
        (
            (
                str(each.at) + ("!" if each.violated else ""),
                "-" if each.risk is None else percent(each.risk),
                each.symbol,
                each.residual if each.residual != before else "",
            )
            for each, before in zip(places, ["", *(each.residual for each in places)], strict=False)
        ),
        left=(0, 2, 3),
    )
    yield ""
    yield from rise_lines(found.sequence)
    yield f"after event {found.at} the risk is {percent(explanation.risk)}"
    yield from path_lines(found, "a verdict" if pattern is None else "the pattern")
    yield from decision_lines(explanation)


def rise_lines(sequence: SequenceRisks) -> Iterator[str]:
    """Yield the greatest rises in words."""
    from ....predict.explaining.words import percent

    for rise in sequence.rises:
        place = sequence.places[rise.at]
        due = f", due: {place.residual}" if place.residual else ""
        ends = f"from {percent(rise.before)} to {percent(rise.after)}"
        yield f"rose {ends} at event {rise.at}: {place.symbol}{due}"


def path_lines(found: ExplainedRisk, goal: str) -> Iterator[str]:
    """Yield the likeliest continuations to a goal."""
    from ....predict.explaining.words import percent

    explanation = found.explanation
    if not explanation.paths:
        return
    count = len(explanation.paths)
    ways = "likeliest way" if count == 1 else f"{count} likeliest ways"
    yield f"the {ways} to {goal}, {percent(min(explanation.covered, 1.0))} of the risk:"
    for path, session in zip(explanation.paths, found.sessions, strict=True):
        example = f"  (as {session})" if session is not None else ""
        yield f"  {percent(path.probability)}  {' > '.join(step.symbol for step in path.steps)}{example}"


def decision_lines(explanation: RiskExplanation) -> Iterator[str]:
    """Yield for each side the next event that raises the risk most, and that which lowers it most."""
    from ....predict.explaining.next_symbols import Actor
    from ....predict.explaining.words import percent

    for actor in Actor:
        for is_rise, word in ((True, "raises"), (False, "lowers")):
            found = explanation.greatest_change(actor, is_rise=is_rise)
            if found is not None:
                symbol = f"{found.symbol} ({percent(found.probability)} likely)"
                yield f"{actor.value}: {symbol} {word} it most, to {percent(found.risk)}"
