"""Risks sampled from a model, and asked of one: what is asked, what is stepped, what counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tracline.predict import Asker, PredictError, Sampler
from tracline.predict.sampling.sampler import SampledRisk, SampledRisks
from tracline.rules.packs.load import pack_text
from tracline.schemas.event import Event, Kind

from ...support.http.chat_server import calls, chat_server, spoken

PACK = """
pack: desk
version: 1
propositions:
  pay: kind == "tool_call" and tool == "pay"
  paid: kind == "tool_result" and tool == "pay" and result == "ok"
  shouts: kind == "assistant" and text contains "!"
  yes: kind == "user" and text == "yes"
  ours: agent == "bot"
rules:
  - {id: asks-first, title: Payments follow a yes, formula: always (pay -> once yes)}
  - {id: calm, title: The agent does not shout, formula: always not shouts}
  - {id: calls-only, steps: pay, formula: always (pay -> not previous pay)}
  - {id: once-only, recover: none, formula: always not paid}
  - {id: ours-calm, applies_to: ours, formula: always not shouts}
"""
RULES = pack_text(PACK, "desk.yaml")
NAMES = ("asks-first", "calm", "calls-only", "once-only", "ours-calm")


def event(seq: int, kind: Kind, **more: Any) -> Event:
    """Return an event of the session."""
    return replace(Event("s", 5, 5 + seq, seq, kind), **more)


HISTORY = [
    event(1, Kind.USER, text="pay it"),
    event(2, Kind.ASSISTANT, text="sure?", agent="bot", model="m"),
    event(3, Kind.USER, text="yes"),
    event(4, Kind.TOOL_CALL, tool="pay", call_id="p", args='{"b": 1, "a": 2}', agent="bot"),
    event(5, Kind.TOOL_RESULT, tool="pay", call_id="p", result="ok"),
]


class Scripted:
    """A model that answers with messages in turn, then always with the last, and records what it is asked."""

    def __init__(self, *messages: Mapping[str, Any]) -> None:
        self.asked: list[list[Mapping[str, Any]]] = []
        self._messages = messages

    def __call__(self, messages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the next message."""
        self.asked.append(list(messages))
        return self._messages[min(len(self.asked), len(self._messages)) - 1]


def risk(found: SampledRisks, rule: str) -> SampledRisk:
    """Return the risk of a rule."""
    return found.risks[NAMES.index(rule)]


def hits(found: SampledRisks) -> dict[str, tuple[int, int]]:
    """Return hits and judged continuations by rule."""
    return {each.rule: (each.hits, each.n) for each in found.risks}


def test_hits_are_counted_over_continuations() -> None:
    """One of three shouts: the others go on until every rule has seen enough."""
    model = Scripted(spoken("Hey!"), spoken("a"))
    found = Sampler(model, n=3, within=2).sample(RULES, HISTORY[:3])
    assert hits(found)["calm"] == (1, 3)
    assert hits(found)["asks-first"] == (0, 3)
    assert risk(found, "calm").risk == pytest.approx(1 / 3)
    # Wilson's interval of 1 of 3 (R: binom::binom.wilson(1, 3)).
    assert (risk(found, "calm").low, risk(found, "calm").high) == pytest.approx((0.06149, 0.79234), abs=1e-5)
    assert len(model.asked) == 6
    assert [message["role"] for message in model.asked[1]] == ["user", "assistant", "user", "assistant"]


def test_only_the_next_events_count_that_a_rule_steps_on() -> None:
    """A shout after the horizon is no hit; a rule that never stepped has none."""
    found = Sampler(Scripted(spoken("a"), spoken("b!")), n=1, within=1).sample(RULES, HISTORY[:2])
    assert hits(found)["calm"] == (0, 1)
    # The call is the first event after the history; its result the second, the shout the third.
    model = Scripted(calls("look"), spoken("b!"))
    assert hits(Sampler(model, n=1, within=2).sample(RULES, HISTORY[:2]))["calm"] == (0, 1)
    model = Scripted(calls("look"), spoken("b!"))
    assert hits(Sampler(model, n=1, within=3).sample(RULES, HISTORY[:2]))["calm"] == (1, 1)


def test_a_rule_that_has_stopped_has_no_risk() -> None:
    """`recover: none` after its verdict, also where that is the last event."""
    found = Sampler(Scripted(spoken("a"), spoken("b")), n=1, within=2).sample(RULES, HISTORY)
    stopped = risk(found, "once-only")
    assert (stopped.risk, stopped.n, stopped.low, stopped.high) == (None, 0, 0.0, 1.0)
    assert risk(found, "calm").risk == 0.0


@pytest.mark.parametrize(
    ("tools", "answer"),
    [
        ("empty", ""),
        ("replay", "ok"),
        (lambda tool, arguments: f"{tool} {arguments}", 'pay {"a": 2, "b": 1}'),
    ],
)
def test_calls_are_answered_by_the_tools(tools: Any, answer: str) -> None:
    """A recorded answer is that of the same call, whatever the order of its arguments, also a later one."""
    model = Scripted(calls("pay", a=2, b=1), spoken("done"), spoken("done"))
    found = Sampler(model, n=1, within=3, tools=tools).sample(RULES, HISTORY, at=3)
    assert model.asked[1][-1] == {"role": "tool", "tool_call_id": "c1", "content": answer}
    assert hits(found)["once-only"] == (int(answer == "ok"), 1)
    assert hits(found)["asks-first"] == (0, 1)


def test_an_open_call_is_answered_before_the_model_goes_on() -> None:
    """Its result is the first event of the continuation."""
    model = Scripted(spoken("done"))
    found = Sampler(model, n=1, within=1, tools=lambda *_: "ok").sample(RULES, HISTORY, at=4)
    assert model.asked[0][-1] == {"role": "tool", "tool_call_id": "p", "content": "ok"}
    assert hits(found)["once-only"] == (1, 1)


def test_a_continuation_has_the_agent_of_the_session() -> None:
    """Rules that apply to one agent step on it; the instructions are the first message."""
    model = Scripted(spoken("Hey!"))
    found = Sampler(model, n=1, within=1, instructions="Be calm").sample(RULES, HISTORY[:3])
    assert hits(found)["ours-calm"] == (1, 1)
    assert model.asked[0][0] == {"role": "system", "content": "Be calm"}


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        ({"role": "user", "content": "secret"}, "another role"),
        ({"content": 5}, "chat-content"),
        ({"tool_calls": [{"id": "a"}]}, "has no function"),
        ({"tool_calls": [{"id": "a", "function": {"name": "", "arguments": "{}"}}]}, "has no name"),
        ({"tool_calls": "secret"}, "no list"),
        ({"tool_calls": [calls("pay")["tool_calls"][0]] * 2}, "one id"),
        ("secret", "no message but a str"),
    ],
)
def test_an_unusable_message_gives_up_its_continuation(reply: Any, what: str) -> None:
    """The others count; where none is left it is an error. Neither has any text of the message."""
    found = Sampler(Scripted(reply, spoken("a")), n=2, within=1).sample(RULES, HISTORY)
    assert hits(found)["calm"] == (0, 1)
    [reason] = found.failed
    assert what in reason
    assert "secret" not in reason
    with pytest.raises(PredictError, match=f"TRL821.*{what}"):
        Sampler(Scripted(reply), n=1, within=1).sample(RULES, HISTORY)


def test_a_session_may_begin_with_the_sampler() -> None:
    """Without any event the model begins."""
    assert hits(Sampler(Scripted(spoken("Hey!")), n=1, within=1).sample(RULES, []))["calm"] == (1, 1)


def answered(text: str | None) -> dict[str, Any]:
    """Return the risks by rule that a model's text gives, or what came instead."""
    model = Scripted({"role": "assistant", "content": text})
    return {each.rule: each.instead or each.risk for each in Asker(model).ask(RULES, HISTORY)}


def test_numbers_between_0_and_1_are_answers_and_nothing_else() -> None:
    """The unusable answer is named; a rule that has stopped is not asked for."""
    text = '{"desk/asks-first": 0.25, "desk/calm": 1.5, "desk/calls-only": true, "desk/ours-calm": 0, "x": 1}'
    assert answered(text) == {
        "asks-first": 0.25,
        "calm": "a number outside [0, 1]",
        "calls-only": "no number",
        "once-only": None,
        "ours-calm": 0.0,
    }
    text = '```json\n{"desk/asks-first": 1, "desk/calm": NaN, "desk/calls-only": "0.5"}\n```'
    found = answered(text)
    assert found["asks-first"] == 1.0
    assert found["calm"] == "a number outside [0, 1]"
    assert found["calls-only"] == "no number"
    assert found["ours-calm"] == "nothing"
    assert answered('{"desk/calm": 0.1, "desk/calm": 0.2}')["calm"] == "no number"


@pytest.mark.parametrize(
    "text", ["Sure! {}", "[0.5]", "0.5", "", "{", None, "[" * 100_000, '{"desk/calm": %s}' % ("1" * 5_000)]
)
def test_an_answer_without_one_json_object_is_an_error(text: str | None) -> None:
    """TRL821, without the text."""
    with pytest.raises(PredictError, match="TRL821 the answer") as caught:
        answered(text)
    assert "Sure" not in str(caught.value)


def test_a_question_has_the_rules_and_the_conversation_as_data() -> None:
    """In one message, so that the model does not go on with the conversation."""
    model = Scripted(spoken("{}"))
    Asker(model, within=7).ask(RULES, HISTORY, at=2)
    [[first, second]] = model.asked
    assert (first["role"], second["role"]) == ("system", "user")
    assert "within the next 7 events" in first["content"]
    assert "always (pay -> once yes)" in second["content"]
    assert "sure?" in second["content"]
    assert '"content": "yes"' not in second["content"]


@pytest.fixture
def shouting() -> Iterator[str]:
    """The address of a model that shouts, or names a risk where it is asked for."""

    def script(messages: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        return spoken('{"desk/calm": 0.5}' if "risks" in str(messages[0]["content"]) else "Hey!")

    with chat_server(script) as server:
        yield server.address


@pytest.mark.slow
def test_a_model_may_be_an_address(shouting: str) -> None:
    """Of an OpenAI-compatible API, for both."""
    assert hits(Sampler(shouting, n=2, within=1).sample(RULES, HISTORY))["calm"] == (2, 2)
    assert Asker(shouting).ask(RULES, HISTORY)[1].risk == 0.5
