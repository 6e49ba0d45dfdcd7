"""The scripted model: it finds in a request where its conversation stands, and replies with what comes next.

It remembers nothing but which turns have failed once: the request itself shows how far the conversation is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from . import dspy_fields
from .script import SCRIPT, Turn, final_answer_id, questions, turns


@dataclass(frozen=True)
class Call:
    """A call of a tool that the model asks for."""

    id: str
    tool: str
    args: Mapping[str, Any]

    @property
    def arguments(self) -> str:
        """The arguments as JSON text."""
        return json.dumps(self.args, ensure_ascii=False)


@dataclass(frozen=True)
class Reply:
    """The reply of the model: calls or a text."""

    id: str
    calls: Sequence[Call] = ()
    text: str = ""


class NotScripted(ValueError):
    """A request that belongs to no conversation of the script."""


class FailsNow(Exception):
    """The script has the server fail once here."""


@dataclass
class Model:
    """The scripted model of one run."""

    failed: set[str] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """Return what comes next in the conversation of a request. Raises NotScripted, FailsNow."""
        text = json.dumps(request, ensure_ascii=False)
        turn = _turn(text)
        dspy = dspy_fields.MARK in text
        done = dspy_fields.calls_done(text) if dspy else _steps_done(turn, text)
        with self.lock:
            if turn.fails_once and not done and turn.key not in self.failed:
                self.failed.add(turn.key)
                raise FailsNow
        if dspy:
            return Reply(re.sub(r"\W", "_", f"{turn.key}_{done}"), text=dspy_fields.in_fields(turn, text))
        place = min(done, len(turn.steps) - 1)
        step = turn.steps[place]
        calls = [Call(call["id"], call["tool"], call["args"]) for call in step.get("calls", ())]
        name = re.sub(r"\W", "_", f"{turn.key}_{done}")
        if "say" in step and '"final_answer"' in text:
            # smolagents' agents answer by calling a tool.
            calls = [Call(final_answer_id(turn, place), "final_answer", {"answer": step["say"]})]
        return Reply(name, calls, "" if calls else step["say"])


def _turn(text: str) -> Turn:
    """Return the turn at which the conversation in a request stands."""
    if SCRIPT["agents"]["policy"] in text:
        found = [question for question in questions() if question.user in text]
    else:
        found = [
            turn
            for session in turns().values()
            if session[0].user in text
            for turn in session
            if turn.user in text
        ]
    if not found:
        raise NotScripted("the request belongs to no conversation of the script")
    return found[-1]


def _steps_done(turn: Turn, text: str) -> int:
    """Count the steps of a turn whose calls the request holds already."""
    done = 0
    for step in turn.steps:
        if not step.get("calls") or not all(call["id"] in text for call in step["calls"]):
            break
        done += 1
    return done
