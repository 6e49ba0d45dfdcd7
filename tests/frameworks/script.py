"""The scripted conversations: what the model replies next, and what has happened at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("conversations.json")
SCRIPT: dict[str, Any] = json.loads(FILE.read_text())

FINISH = {"id": None, "tool": "finish", "args": {}, "result": "Completed."}
"""The call by which an agent of DSPy shows that it needs no more tools."""


@dataclass(frozen=True)
class Turn:
    """One message of a user, or one question to the policy agent, and the steps of the agent that follow."""

    key: str
    user: str
    steps: tuple[Mapping[str, Any], ...]
    fails_once: bool = False


def _turn(key: str, data: Mapping[str, Any]) -> Turn:
    return Turn(key, data["user"], tuple(data["steps"]), data.get("fails_once", False))


def turns() -> dict[str, list[Turn]]:
    """Return the turns of each session, in order."""
    return {
        name: [_turn(f"{name}/{place}", data) for place, data in enumerate(session)]
        for name, session in SCRIPT["sessions"].items()
    }


def questions() -> list[Turn]:
    """Return the turns of the policy agent."""
    everything = [turn for session in turns().values() for turn in session]
    return [_turn(call["id"], call["asks"]) for turn in everything for call in _asking(turn)]


def _asking(turn: Turn) -> list[Mapping[str, Any]]:
    """Return the calls of a turn that ask another agent."""
    return [call for step in turn.steps for call in step.get("calls", ()) if "asks" in call]


def events_of(turn: Turn, shape: Mapping[str, Any], nested: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the events of a turn as they happen in a framework of that shape (see `truth_of`)."""
    yield {"kind": "user", "text": shape.get("user", "{}").format(turn.user), "nested": nested}
    if shape.get("reported_at_end"):
        for call in _asking(turn):
            yield from events_of(_turn(call["id"], call["asks"]), shape, nested=True)
    for place, step in enumerate(turn.steps):
        if "say" not in step:
            calls = [*step["calls"]]
            for batch in [[call] for call in calls] if shape.get("single_calls") else [calls]:
                yield from _calls(batch, shape, nested)
            if shape.get("asks_again") and any("raises" in call for call in calls):
                yield from _calls([_asked_again(call, turn) for call in calls], shape, nested)
        elif shape.get("final_answer"):
            name = final_answer_id(turn, place)
            call = {
                "id": name,
                "tool": "final_answer",
                "args": {"answer": step["say"]},
                "result": step["say"],
            }
            yield from _calls([call], shape, nested)
        else:
            if shape.get("finish"):
                yield from _calls([FINISH], shape, nested)
            yield {"kind": "assistant", "text": step["say"], "nested": nested}


def _asked_again(call: Mapping[str, Any], turn: Turn) -> dict[str, Any]:
    """Return a call that failed as it is made again, under its id, with the answer of the next like it."""
    others = [call_of_turn for step in turn.steps for call_of_turn in step.get("calls", ())]
    same = [
        call_of_turn
        for call_of_turn in others
        if (call_of_turn["tool"], call_of_turn["args"]) == (call["tool"], call["args"])
    ]
    later = same[min(same.index(call) + 1, len(same) - 1)]
    return {**later, "id": call["id"]}


def final_answer_id(turn: Turn, place: int) -> str:
    """Return the id of the call by which an agent answers, where it has to call a tool for that."""
    return f"call_{re.sub('[^a-z0-9]', '_', turn.key)}_{place}_final"


def _calls(
    calls: Sequence[Mapping[str, Any]], shape: Mapping[str, Any], nested: bool
) -> Iterator[dict[str, Any]]:
    """Yield parallel calls, and then their results."""
    for call in calls:
        named = {"tool": call["tool"], "call_id": call["id"], "nested": nested}
        yield {"kind": "tool_call", "args": call["args"], **named}
    for call in calls:
        if "asks" in call and not shape.get("reported_at_end"):
            yield from events_of(_turn(call["id"], call["asks"]), shape, nested=True)
        named = {"tool": call["tool"], "call_id": call["id"], "nested": nested}
        result = call.get("result")
        if isinstance(result, str) and "wrap" in shape:
            result = {shape["wrap"]: result}
        yield {"kind": "tool_result", "result": result, "error": call.get("error", False), **named}


def truth_of(prefix: str, shape: Mapping[str, Any], sessions: str = "") -> dict[str, Any]:
    """Return what has happened in sessions whose ids begin so: `sessions` and `verdicts` of `truth.json`.

    `shape` describes how a framework plays the script: `wrap` names the only field of an object by results
    that are text, `user` is what stands around a user's words, `single_calls` has parallel calls one by one,
    `final_answer` has answers as calls of a tool, `finish` has a call of that tool before each answer,
    `asks_again` does not show the model a call that raised, which the model then makes once more,
    `reported_at_end` has what an agent did when its run is over, and so a sub-agent's events before its call.
    With `sessions` "trace" each turn is a session ("t0", "t1", in the order of time), with "merged"
    everything is one, "all".
    """
    everything = turns()
    events = {
        prefix + name: [event for turn in of_session for event in events_of(turn, shape)]
        for name, of_session in everything.items()
    }
    again = SCRIPT["verdicts_asked_again"] if shape.get("asks_again") else {}
    verdicts = {prefix + name: SCRIPT["verdicts"][name] + again.get(name, []) for name in everything}
    if sessions:
        order = in_rounds()
        events = {f"t{place}": list(events_of(turn, shape)) for place, turn in enumerate(order)}
    if sessions == "trace":
        verdicts = {name: SCRIPT["verdicts_by_turn"].get(name, []) for name in events}
    if sessions == "merged":
        events = {"all": [event for of_session in events.values() for event in of_session]}
        verdicts = {"all": [found for of_session in verdicts.values() for found in of_session]}
    if shape.get("single_calls"):
        verdicts = {
            name: [found for found in of_session if found[0] != "one-call-at-a-time"]
            for name, of_session in verdicts.items()
        }
    return {"sessions": events, "verdicts": verdicts}


def in_rounds() -> list[Turn]:
    """Return all turns by rounds: the first of every session, then the second."""
    sessions = list(turns().values())
    places = range(max(map(len, sessions)))
    return [session[place] for place in places for session in sessions if place < len(session)]
