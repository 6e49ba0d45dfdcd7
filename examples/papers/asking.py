"""TRAC 4.1 on a desk with a stated policy: a learned chain, sampling from the agent, and asking a model."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any, Protocol

from ...batch.prediction.chain_archive import counted_archive
from ...batch.prediction.chain_folder import write_learned
from ...batch.prediction.forecasts import ChainPlaces, scored_forecasts
from ...batch.prediction.scored import scored_rule
from ...batch.prediction.source_archive import source_archive
from ...batch.prepare.options import AuditOptions
from ...batch.sources.discover import Population
from ...predict.folder.chain_rules import chain_rules
from ...predict.folder.load import load_chain
from ...predict.learning.learn import Learning, learn
from ...predict.learning.options import LearnOptions
from ...predict.risk.rule_risks import RiskOptions
from ...predict.sampling.asker import Asker
from ...predict.sampling.endpoint import ModelEndpoint
from ...predict.sampling.forecasts import Forecast, ForecastScores
from ...predict.sampling.sampler import Sampler
from ...predict.validation.rule_scores import Promise
from ...rules.engine.judge import CompiledRules, compile_rule_set
from ...rules.model.rule import RuleSet
from ...rules.packs.load import pack_text
from ...schemas.event import Event, Kind
from ...schemas.time import rfc3339
from ..markov_desk import FIRST, FOUND, POLICY, STEPS, MarkovDesk, event_frame, events

PACK = "markov_desk.yaml"
LEARNED, SCORED, ASKED = 2_000, 40, 10
"""Sessions to learn from, to score on, and to ask a real model about."""
WITHIN = 3

INSTRUCTIONS = """\
You are a support agent. Find a customer's account by e-mail before anything else. Before a refund, name the
amount and ask for a yes. After a hand-over to a person, do nothing."""


@dataclass(frozen=True, slots=True)
class DeskModel:
    """The agent's part of the desk's policy, as a model from messages to a message.

    Where the policy waits for the customer, the text of the agent is empty.
    """

    draw: Random

    def __call__(self, messages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Draw the agent's next step."""
        taken = [name for message in messages for name in _steps_of(message)]
        last = taken[-1] if taken else FIRST
        shares = {
            name: share
            for name, share in POLICY[last, FOUND in taken].items()
            if name in STEPS and STEPS[name].kind in (Kind.ASSISTANT, Kind.TOOL_CALL)
        }
        if not shares:
            return {"content": ""}
        step = STEPS[self.draw.choices(list(shares), list(shares.values()))[0]]
        if step.kind is Kind.ASSISTANT:
            return {"content": step.text}
        return {"tool_calls": [{"function": {"name": step.tool, "arguments": step.args}}]}

    def answer(self, tool: str, _arguments: str) -> str:
        """Draw the result of a call."""
        [call] = [name for name, step in STEPS.items() if step.kind is Kind.TOOL_CALL and step.tool == tool]
        shares = POLICY[call, False]
        return STEPS[self.draw.choices(list(shares), list(shares.values()))[0]].result or ""


def _steps_of(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the steps in a message."""
    tools = [call["function"]["name"] for call in message.get("tool_calls", ())]
    for name, step in STEPS.items():
        of_role = step.kind.value == message["role"] and step.text == message["content"]
        is_result = message["role"] == "tool" and step.kind is Kind.TOOL_RESULT
        if (
            of_role
            or (step.kind is Kind.TOOL_CALL and step.tool in tools)
            or (is_result and step.result == message["content"])
        ):
            yield name


def asking(address: str | None = None, sessions: int = SCORED, learned: int = LEARNED) -> Iterator[str]:
    """Yield the lines of the page; `address` is that of a model to ask as well."""
    yield from ("", "## TRAC 4.1: asking the model", "")
    yield "An agent with a stated policy, `examples/markov_desk.py`, serves customers."
    yield f"A chain is learned from {learned:,} of its sessions, with rules of one pack."
    yield f"On {sessions} others each source predicts after each event what is broken within {WITHIN} events."
    yield "*Samples* are continuations of the agent itself, in which no customer speaks, as in the paper."
    yield "*Calibrated* is isotonic regression, fitted on the other sessions."
    yield "Each figure is the Brier skill over the rule's rate, with that of the chain at the same events."
    yield ""
    yield "| rule | source | events | broken | skill | calibrated | chain |"
    yield "|---|---|---|---|---|---|---|"
    for each in _scores(address, sessions, learned):
        scores = (each.given.skill.value, each.calibrated.skill.value, each.chain.skill.value)
        skills = " | ".join("-" if math.isnan(skill) else f"{skill:+.3f}" for skill in scores)
        yield f"| {each.rule} | {each.how} | {each.given.visits} | {each.given.violating} | {skills} |"
    yield ""
    yield "Few of the events are broken, so the order of the sources is worth more than the digits."
    yield "A sample has no customer and no end, so the agent acts where it would have waited or been done."
    yield "A calibration can only order and rescale the few values that samples have."
    if address is None:
        yield "`make papers MODEL=URL` asks a real model, too."


def _scores(address: str | None, sessions: int, size: int) -> list[ForecastScores]:
    rules = pack_text((files("tracline.examples.papers") / PACK).read_text(), PACK)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        learned, scored = MarkovDesk(size, seed=1), MarkovDesk(sessions, seed=2)
        for desk, file in ((learned, "learned.parquet"), (scored, "scored.parquet")):
            event_frame(desk).write_parquet(folder / file)
        options = LearnOptions(RiskOptions((1, WITHIN, None)))
        with source_archive(str(folder / "learned.parquet")) as archive:
            write_learned(folder / "chain", learn(archive, rules, Learning(options)))
        return _scored(folder, list(_forecasts(rules, scored, address)))


def _scored(folder: Path, forecasts: Sequence[Forecast]) -> list[ForecastScores]:
    """Return the scores of forecasts beside the chain's in a folder."""
    chain, archive = chain_rules(load_chain(folder / "chain")), str(folder / "scored.parquet")
    scratch = [folder / "counted", folder / "outcomes"]
    for each in scratch:
        each.mkdir()
    counted = counted_archive(chain, archive, scratch[0], AuditOptions(), Population())
    horizons = chain.chain.horizons
    scored = [
        scored_rule(learned, rule.estimate(learned), rule.labels(learned), found, horizons, Promise())
        for rule, learned, found in zip(chain.rules, chain.counted, counted.counted, strict=True)
    ]
    names = [(rule.pack, rule.rule) for rule in chain.rules]
    places = ChainPlaces(
        over={name: each.over for name, each in zip(names, scored, strict=True)},
        risks={name: each.risks for name, each in zip(names, scored, strict=True)},
        horizons=horizons,
        ids=counted.ids,
    )
    return scored_forecasts(
        forecasts, chain.watched, places, archive, scratch[1], AuditOptions(), Population(), 0.95
    )


def _forecasts(rules: RuleSet, desk: MarkovDesk, address: str | None) -> Iterator[Forecast]:
    """Yield the forecasts after every event of the desk's sessions, by each source."""
    compiled, model = compile_rule_set(rules), DeskModel(Random("asking"))
    for number in range(desk.sessions):
        session = [event for event in events(desk, number) if event.kind is not Kind.END]
        for at in range(1, len(session) + 1):
            for n in (3, 10):
                sampler = Sampler(model, n, WITHIN, tools=model.answer)
                found = sampler.sample(compiled, session, at)
                yield from _of(f"{n} samples", session[0], at, found.risks)
            if address is not None and number < ASKED:
                yield from _asked(compiled, session, at, ModelEndpoint(address))


def _asked(
    compiled: CompiledRules, session: Sequence[Event], at: int, model: ModelEndpoint
) -> Iterator[Forecast]:
    sampler = Sampler(model, 3, WITHIN, instructions=INSTRUCTIONS)
    yield from _of("3 samples of the model", session[0], at, sampler.sample(compiled, session, at).risks)
    yield from _of("the model asked", session[0], at, Asker(model, WITHIN).ask(compiled, session, at))


class RiskOfRule(Protocol):
    """The risk that a source gives a rule."""

    @property
    def pack(self) -> str: ...  # noqa: D102 (the fields of `SampledRisk` and `AskedRisk`)
    @property
    def rule(self) -> str: ...  # noqa: D102
    @property
    def risk(self) -> float | None: ...  # noqa: D102


def _of(how: str, first: Event, at: int, risks: Iterable[RiskOfRule]) -> Iterator[Forecast]:
    """Yield the risks of a source as forecasts."""
    about = first.session_id, rfc3339(first.occurrence), at, WITHIN, how
    for each in risks:
        if each.risk is not None:
            yield Forecast(*about, each.pack, each.rule, each.risk)
