"""`tracline predict sample`: the risk of a session's rules by asking a model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import click
import orjson

from ....schemas.time import rfc3339
from ...options import (
    Command,
    NumberType,
    RuleSelection,
    format_option,
    grouped_options,
    note,
    selected_rules_options,
)
from ...rejected import report_rejected
from ...source import allow_rejected_option, audit_options, chat_options, sources_argument, timezone_option
from ...terminal import quoted

if TYPE_CHECKING:
    from ....predict.sampling.endpoint import ModelEndpoint
    from ....rules.model.rule import RuleSet
    from ....schemas.event import Event

F = TypeVar("F", bound=Callable[..., Any])

KEY = "OPENAI_API_KEY"
N_MAX, WITHIN_MAX = 1_000, 100
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class SampleChoices:
    """The options on the model, and on what it is asked."""

    model: str
    at: int | None
    n: int
    within: int
    ask: bool
    tools: Literal["empty", "replay"]
    temperature: float
    system: Path | None
    request: Path | None


def sample_options() -> Callable[[F], F]:
    """Return the options from `--model` to `--request`: the SampleChoices `choices`."""
    return grouped_options(
        "choices",
        SampleChoices,
        click.option(
            "--model", required=True, metavar="URL", help="The address of an OpenAI-compatible API."
        ),
        click.option(
            "--at", type=click.IntRange(min=0), metavar="N", help="After event N.  [default: the last]"
        ),
        click.option(
            "--n",
            type=click.IntRange(1, N_MAX),
            default=3,
            show_default=True,
            metavar="N",
            help="The number of continuations.",
        ),
        click.option(
            "--within",
            type=click.IntRange(1, WITHIN_MAX),
            default=3,
            show_default=True,
            metavar="K",
            help="The horizon, in events that a rule steps on.",
        ),
        click.option("--ask", is_flag=True, help="Ask the model for the probabilities instead of sampling."),
        click.option(
            "--tools",
            type=click.Choice(["empty", "replay"]),
            default="empty",
            show_default=True,
            help="The answers to calls: empty, or those that the session has to the same call.",
        ),
        click.option(
            "--temperature",
            type=NumberType(0, 2),
            default=1.0,
            show_default=True,
            metavar="T",
            help="The temperature of continuations.",
        ),
        click.option("--system", type=FILE, metavar="FILE", help="The agent's instructions, as text."),
        click.option(
            "--request",
            type=FILE,
            metavar="FILE",
            help="Members of each request, as JSON: `model`, and the agent's `tools`.",
        ),
    )


@click.command(cls=Command)
@sources_argument("archive", "ARCHIVE")
@selected_rules_options()
@click.option("--session", required=True, metavar="ID", help="The session.")
@sample_options()
@timezone_option()
@chat_options()
@allow_rejected_option()
@format_option("table", "json")
def command(
    archive: tuple[str, ...],
    selection: RuleSelection,
    session: str,
    choices: SampleChoices,
    timezone: str,
    allow_rejected: int,
    format: str,
) -> None:
    """Sample from a model how a session of ARCHIVE goes on, and how often that violates each rule.

    The model is asked for N continuations of the session's last occurrence, in which no user speaks. Of an
    agent's own model with its instructions and tools this is the risk of what the agent does next. The
    session is sent to the address, with the key in OPENAI_API_KEY if there is one.

    With --ask the model is asked once, for the probability that each rule is violated.

    \b
        tracline predict sample archive/ --session chat-0000017 --rules customer-service \\
            --model http://127.0.0.1:8080/v1 --system prompt.txt --request request.json
    """
    from ....batch.sources.discover import Population
    from ....batch.survey.sessions import judged_session

    rule_set, population = selection.load(), Population()
    with tempfile.TemporaryDirectory() as scratch:
        found = judged_session(archive, session, Path(scratch), population, audit_options(timezone))
    report_rejected(population.rejects, population.rejected, archive, allow_rejected)
    events = next((each for each in reversed(found.occurrences()) if each), ())
    if not events:
        raise click.UsageError(quoted(f"{session} has no events."))
    at = events[-1].seq if choices.at is None else choices.at
    if at > events[-1].seq:
        raise click.UsageError(quoted(f"--at {at}: {session} has {events[-1].seq} events."))
    given = [dict(each) for each in (asked if choices.ask else sampled)(rule_set, events, at, choices)]
    if format == "json":
        document = {
            "session": session,
            "occurrence": rfc3339(events[-1].occurrence),
            "at": at,
            "within": choices.within,
            "how": "asked" if choices.ask else "sampled",
            "risks": given,
        }
        click.echo(orjson.dumps(document))
        return
    for line in table_lines(given):
        click.echo(line)


def endpoint(choices: SampleChoices, events: Sequence[Event], temperature: float) -> ModelEndpoint:
    """Return the model behind the address, by default that which the session names."""
    from ....predict.sampling.endpoint import ModelEndpoint

    recorded = next(
        (event.model for event in reversed(events) if event.model and not event.nested), "default"
    )
    return ModelEndpoint(
        choices.model,
        recorded,
        key=os.environ.get(KEY) or None,
        temperature=temperature,
        more={} if choices.request is None else _members(choices.request),
    )


def sampled(
    rule_set: RuleSet, events: Sequence[Event], at: int, choices: SampleChoices
) -> Iterator[Mapping[str, Any]]:
    """Yield the sampled risk of each rule, and note the continuations that were given up."""
    from ....predict.sampling.sampler import Sampler

    model = endpoint(choices, events, choices.temperature)
    instructions = None if choices.system is None else choices.system.read_text("utf-8", "replace")
    sampler = Sampler(
        model, choices.n, choices.within, choices.temperature, choices.tools, instructions=instructions
    )
    found = sampler.sample(rule_set, events, at)
    if found.failed:
        reasons = "; ".join(sorted(set(found.failed)))
        given_up = f"{len(found.failed)} of {choices.n} continuations were given up"
        note(quoted(f"{model.where}: TRL821 {given_up}: {reasons}"))
    for each in found.risks:
        yield {
            "pack": each.pack,
            "rule": each.rule,
            "risk": each.risk,
            "low": each.low,
            "high": each.high,
            "hits": each.hits,
            "n": each.n,
        }


def asked(
    rule_set: RuleSet, events: Sequence[Event], at: int, choices: SampleChoices
) -> Iterator[Mapping[str, Any]]:
    """Yield the probability that the model gives each rule, and note what came instead of some."""
    from ....predict.sampling.asker import Asker

    model = endpoint(choices, events, 0.0)
    found = Asker(model, choices.within).ask(rule_set, events, at)
    without = [each for each in found if each.instead is not None]
    if without:
        instead = "; ".join(f"{each.pack}/{each.rule}: {each.instead}" for each in without)
        note(
            quoted(f"{model.where}: TRL821 no probability of {len(without)} of {len(found)} rules: {instead}")
        )
    for each in found:
        yield {"pack": each.pack, "rule": each.rule, "risk": each.risk, "instead": each.instead}


def _members(path: Path) -> dict[str, Any]:
    """Return the members of a request. Raises CommandError where the file is no JSON object."""
    from ...error import command_error

    try:
        found: object = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise command_error(
            "TRL612", f"{path}:{error.lineno}", "not JSON", 'write `{"model": ...}`'
        ) from None
    if not isinstance(found, dict):
        raise command_error("TRL612", str(path), "not a JSON object", 'write `{"model": ...}`')
    members = cast("dict[str, Any]", found)
    return {name: value for name, value in members.items() if name not in ("messages", "stream", "n")}


def table_lines(risks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a heading and a line for each rule, the riskiest first."""
    from ....predict.explaining.words import percent
    from ...render.prediction import aligned_lines

    ordered = sorted(risks, key=lambda each: -1.0 if each["risk"] is None else each["risk"], reverse=True)
    rows: list[tuple[str, ...]] = []
    for each in ordered:
        risk = "-" if each["risk"] is None else percent(each["risk"])
        name = f"{each['pack']}/{each['rule']}"
        if "n" not in each:
            rows.append((name, risk, each["instead"] or ""))
            continue
        interval = f"{percent(each['low'])} to {percent(each['high'])}" if each["n"] else ""
        rows.append((name, risk, f"{each['hits']} of {each['n']}" if each["n"] else "no risk", interval))
    heading = (
        ("rule", "risk", "instead") if risks and "n" not in risks[0] else ("rule", "risk", "hits", "interval")
    )
    yield from aligned_lines(heading, rows)
