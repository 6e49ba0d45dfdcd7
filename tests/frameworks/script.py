"""The scripted conversations: what the model says next, and what has happened when all is said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("conversations.json")
SCRIPT: dict[str, Any] = json.loads(FILE.read_text())


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
    return [
        _turn(call["id"], call["asks"])
        for session in SCRIPT["sessions"].values()
        for turn in session
        for step in turn["steps"]
        for call in step.get("calls", ())
        if "asks" in call
    ]


def events_of(turn: Mapping[str, Any], nested: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the events of a turn, in the form that `truth.json` has."""
    yield {"kind": "user", "text": turn["user"], "nested": nested}
    for step in turn["steps"]:
        if "say" in step:
            yield {"kind": "assistant", "text": step["say"], "nested": nested}
            continue
        for call in step["calls"]:
            named = {"tool": call["tool"], "call_id": call["id"], "nested": nested}
            yield {"kind": "tool_call", "args": call["args"], **named}
        for call in step["calls"]:
            if "asks" in call:
                yield from events_of(call["asks"], nested=True)
            named = {"tool": call["tool"], "call_id": call["id"], "nested": nested}
            yield {
                "kind": "tool_result",
                "result": call.get("result"),
                "error": call.get("error", False),
                **named,
            }


def truth_of(prefix: str, results: Mapping[str, Any], sessions: str = "") -> dict[str, Any]:
    """Return what has happened in sessions whose ids begin so: `sessions` and `verdicts` of `truth.json`.

    `results` says how a framework gives results to its model: `wrap` names the only field of an object around
    those that are text. With `sessions` "trace" each turn is a session ("t0", "t1", in the order of time).
    """
    events: dict[str, list[dict[str, Any]]] = {}
    verdicts: dict[str, list[list[str]]] = {}
    for name, session in SCRIPT["sessions"].items():
        events[prefix + name] = [event for turn in session for event in events_of(turn)]
        verdicts[prefix + name] = SCRIPT["verdicts"][name]
    if sessions == "trace":
        events, verdicts = _by_trace()
    for event in (event for some in events.values() for event in some):
        if "wrap" in results and isinstance(event.get("result"), str):
            event["result"] = {results["wrap"]: event["result"]}
    return {"sessions": events, "verdicts": verdicts}


def _by_trace() -> tuple[dict[str, list[dict[str, Any]]], dict[str, list[list[str]]]]:
    """Return events and verdicts where each turn is a session: turns are played one by one, in rounds.

    What a rule says of a whole session it says here of the turn in which it was broken.
    """
    sessions = SCRIPT["sessions"]
    order = [
        (name, session[place])
        for place in range(max(map(len, sessions.values())))
        for name, session in sessions.items()
        if place < len(session)
    ]
    events = {f"t{place}": list(events_of(turn)) for place, (_, turn) in enumerate(order)}
    verdicts = {
        f"t{place}": SCRIPT["verdicts"][name] if place < len(sessions) else []
        for place, (name, _) in enumerate(order)
    }
    return events, verdicts
