"""The risk of rules by asking the agent's model for continuations of a conversation (TRAC, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ...rules.engine.judge import CompiledRules, compile_rule_set
from ...rules.model.rule import RuleSet
from ...schemas.chat.decode import decode
from ...schemas.chat.encode import ChatMessage, answer_of, chat_messages, open_calls
from ...schemas.chat.find import RecordedConversation
from ...schemas.event import Event, Kind
from ..binomial import wilson
from ..error import PredictError
from .answers import Answers, answering
from .endpoint import model_at
from .reply import ChatModel, read_reply, unusable
from .rule_outcomes import RuleOutcome, rule_outcomes

TEMPERATURE = 1.0
"""That of the paper's predictive monitor (appendix D.2)."""


@dataclass(frozen=True, slots=True)
class SampledRisk:
    """The continuations that violate a rule, with a Wilson interval of their share.

    `n` counts those in which the rule was judged to the end. There is no risk where there are none, nor where
    the rule was unjudged or had stopped before.
    """

    pack: str
    rule: str
    hits: int
    n: int
    low: float
    high: float

    @property
    def risk(self) -> float | None:
        """Return the share of violating continuations."""
        return self.hits / self.n if self.n else None


@dataclass(frozen=True, slots=True)
class SampledRisks:
    """The risks of all rules, and the reasons why continuations were given up, one for each."""

    risks: tuple[SampledRisk, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sampler:
    """A predictive monitor that samples `n` continuations from the agent's model.

    `model` is a callable from messages to a message, or the address of an OpenAI-compatible API, which is
    asked at `temperature`. `tools` decides the answers to calls: empty, by the recorded answer to the same
    call, or by a function of tool and arguments. `instructions` are the agent's own, as its first message.

    As in the paper, no user speaks in a continuation. It has at most `within` messages of the model, and
    never the close, so an obligation that stays unmet is no hit.
    """

    model: ChatModel | str
    n: int = 3
    within: int = 3
    temperature: float = TEMPERATURE
    tools: Answers = "empty"
    instructions: str | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        assert self.n >= 1, "n is at least 1"
        assert self.within >= 1, "within is at least 1"

    def sample(
        self, rules: RuleSet | CompiledRules, events: Sequence[Event], at: int | None = None
    ) -> SampledRisks:
        """Return the risks after the event `at` of an occurrence (its `seq`), or after all its events.

        A risk is that of a verdict against the agent within the next `within` events that the rule steps on.
        Recorded answers may be of any of the events. Raises PredictError (TRL821) where no continuation could
        be drawn.
        """
        compiled = rules if isinstance(rules, CompiledRules) else compile_rule_set(rules)
        events = [event for event in events if event.kind is not Kind.END]
        history = [event for event in events if at is None or event.seq <= at]
        model = model_at(self.model, self.temperature) if isinstance(self.model, str) else self.model
        drawing = _Drawing(self, model, compiled, history, answering(self.tools, events))
        drawn, failed, last = list[list[RuleOutcome | None]](), list[str](), None
        for _ in range(self.n):
            try:
                drawn.append(drawing.outcomes())
            except PredictError as error:
                failed.append(error.what)
                last = error
        if last is not None and not drawn:
            raise last
        return SampledRisks(tuple(self._risks(compiled, drawn)), tuple(failed))

    def _risks(
        self, compiled: CompiledRules, drawn: Sequence[Sequence[RuleOutcome | None]]
    ) -> list[SampledRisk]:
        found: list[SampledRisk] = []
        for number, rule in enumerate(compiled.rules):
            of_rule = [outcomes[number] for outcomes in drawn]
            judged = [each for each in of_rule if each is not None and (each.violated or not each.is_stopped)]
            hits = sum(each.violated for each in judged)
            low, high = wilson(hits, len(judged), self.confidence)
            found.append(SampledRisk(rule.pack, rule.id, hits, len(judged), low, high))
        return found


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The drawing of continuations of one history."""

    sampler: Sampler
    model: ChatModel
    compiled: CompiledRules
    history: Sequence[Event]
    answer: Callable[[ChatMessage], str]

    def outcomes(self) -> list[RuleOutcome | None]:
        """Draw a continuation, no longer than the rules need; return the outcome of each rule."""
        within = self.sampler.within
        before = chat_messages(self.history)
        messages, found = list(before), list[RuleOutcome | None]()
        for _ in range(within):
            self._answer_calls(messages)
            messages.append(read_reply(self.model(self._asked(messages)), len(messages)))
            self._answer_calls(messages)
            events = [*self.history, *continued(self.history, before, messages)]
            found = rule_outcomes(self.compiled, events, len(self.history), within)
            if all(each is None or each.is_stopped or each.violated or each.seen >= within for each in found):
                break
        return found

    def _answer_calls(self, messages: list[ChatMessage]) -> None:
        messages += [answer_of(call, self.answer(call)) for call in open_calls(messages)]

    def _asked(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        instructions = self.sampler.instructions
        first: list[ChatMessage] = (
            [] if instructions is None else [{"role": "system", "content": instructions}]
        )
        return [*first, *messages]


def continued(
    history: Sequence[Event], before: Sequence[ChatMessage], messages: Sequence[ChatMessage]
) -> list[Event]:
    """Return the events of the messages after those of the history, as events of its session.

    They have its agent, model and service, and the time of its last event. Raises PredictError (TRL821) where
    a message cannot be an event.
    """
    known, read = (decode(RecordedConversation(list(each), {}, "model")) for each in (before, messages))
    if len(read.flaws) > len(known.flaws):
        raise unusable(f"the answer {read.flaws[-1].text} ({read.flaws[-1].code})")
    new = read.events[len(known.events) - bool(known.events) : -1]
    last = history[-1] if history else None
    agent, model, service = (_last(history, name) for name in ("agent", "model", "service"))
    return [
        replace(
            event,
            session_id=last.session_id if last else "",
            occurrence=last.occurrence if last else 0,
            time=last.time if last else 0,
            seq=(last.seq if last else 0) + place,
            agent=agent,
            model=model,
            service=service,
        )
        for place, event in enumerate(new, start=1)
    ]


def _last(history: Sequence[Event], name: str) -> str | None:
    """Return the last value that an event of the agent itself has."""
    values = (getattr(event, name) for event in reversed(history) if not event.nested)
    return next((value for value in values if value is not None), None)
