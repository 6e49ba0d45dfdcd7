"""TRAC's TextWorld: an agent finds a recipe, cooks it and eats the meal (appendices D.1.2 and D.2.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from .environment import Action, State

_COMMAND = re.compile(r"(\w+)(?: (.+?))?(?: (?:from|on|into|with) (.+))?")
"""The tool of a command, its item, and the place or the tool that it names."""


class GameAction(NamedTuple):
    """An action of a game, whose facts are bits: those it needs, removes and adds."""

    command: str
    needs: int
    removes: int
    adds: int


class GameState(NamedTuple):
    """The state of a game: its facts, and the item that the last action took."""

    facts: int
    taken: str


class CookingGame:
    """A game as `game_facts.py` writes it, which goes on after the meal.

    Beside the commands that the game admits there is `goal`, which prints the task and changes nothing.
    """

    pack = "textworld.yaml"

    def __init__(self, file: Path) -> None:
        """Read a game. Raises FileNotFoundError where `make papers` has not made it."""
        written = json.loads(file.read_bytes())
        self._start = GameState(written["start"], "")
        self._rooms: dict[str, int] = written["rooms"]
        self._actions = [msgspec.convert(list(each.values()), GameAction) for each in written["actions"]]
        self._options = cache(self._options_of)

    def start(self) -> State:
        """Return the state before the first action."""
        return self._start

    def actions(self, state: State) -> Sequence[Action]:
        """Return the actions of a state, each with its rooms before and after it."""
        return list(self._options(cast("GameState", state)))

    def after(self, state: State, action: Action) -> State:
        """Return the state after an action."""
        return self._options(cast("GameState", state))[action]

    def _options_of(self, state: GameState) -> dict[Action, GameState]:
        room = self._room(state.facts)
        found = {_action("goal", room, room, ""): GameState(state.facts, "")}
        for each in self._actions:
            if state.facts & each.needs == each.needs:
                facts = state.facts & ~each.removes | each.adds
                action = _action(each.command, room, self._room(facts), state.taken)
                arguments = dict(action.args)
                found[action] = GameState(facts, arguments["item"] if action.tool == "take" else "")
        return found

    def _room(self, facts: int) -> str:
        return next(name for name, fact in self._rooms.items() if facts & fact)


@cache
def _action(command: str, room: str, to: str, taken: str) -> Action:
    match = _COMMAND.fullmatch(command)
    assert match is not None, command
    tool, item, place = (text or "" for text in match.groups())
    is_taken = "yes" if item and item == taken else "no"
    return Action(
        tool, (("item", item), ("place", place), ("room", room), ("to", to), ("was_taken", is_taken))
    )
