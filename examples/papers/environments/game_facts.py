"""The actions of a game of TextWorld: `python game_facts.py GAME.json OUT.json [GAME.z8]`.

TextWorld's environment runs this file, which therefore imports nothing of tracline. It writes the game as a
function from states and actions to states, with the facts of TextWorld's own logic as bits of a number:

    {"start": FACTS, "rooms": {"kitchen": FACT}, "actions": [
        {"command": "take knife from table", "needs": FACTS, "removes": FACTS, "adds": FACTS}]}

`rooms` has the fact that the player is there. With the program of the game (`GAME.z8`) it plays that, too, at
random, and fails where the program admits other commands.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

GAMES, STEPS = 20, 50
"""The random games that are compared with the program, and the steps of each."""


def game_facts(path: str) -> dict[str, Any]:
    """Return the actions of a game.

    No rule of the game needs the absence of a fact, so an action that any state admits is admitted by all
    facts together that actions can add.
    """
    game: Any = importlib.import_module("textworld.generator.game").Game.load(path)
    logic: Any = importlib.import_module("textworld.logic")
    inform: Any = importlib.import_module("textworld.generator.inform7").Inform7Game(game)
    start = list(game.world.facts)
    facts, found = dict.fromkeys(start), dict[Any, None]()
    rules, constants = list(game.kb.rules.values()), game.kb.types.constants_mapping
    count = -1
    while count < len(facts):
        count = len(facts)
        every = logic.State(game.kb.logic, list(facts))
        found.update(dict.fromkeys(every.all_applicable_actions(rules, constants)))
        facts.update(dict.fromkeys(fact for action in found for fact in action.postconditions))
    bits = {fact: place for place, fact in enumerate(facts)}
    actions = list(found)
    commands: Sequence[str] = inform.gen_commands_from_actions(actions)
    return {
        "start": _mask(start, bits),
        "rooms": {
            str(game.infos[fact.arguments[1].name].name): 1 << place
            for fact, place in bits.items()
            if str(fact).startswith("at(P, ")
        },
        "actions": [
            {
                "command": command,
                "needs": _mask(action.preconditions, bits),
                "removes": _mask(set(action.preconditions) - set(action.postconditions), bits),
                "adds": _mask(action.postconditions, bits),
            }
            for command, action in sorted(zip(commands, actions, strict=True), key=lambda each: each[0])
        ],
    }


def _mask(facts: Iterable[Any], bits: dict[Any, int]) -> int:
    return sum(1 << place for place in {bits[fact] for fact in facts})


def compare(facts_of_game: dict[str, Any], program: str) -> int:
    """Play the program at random; return the steps that were compared. Raises SystemExit where it differs."""
    textworld: Any = importlib.import_module("textworld")
    environment = textworld.start(program, textworld.EnvInfos(admissible_commands=True))
    compared = 0
    for number in range(GAMES):
        draw, seen, state = Random(number), environment.reset(), facts_of_game["start"]
        for _ in range(STEPS):
            admitted = [each for each in facts_of_game["actions"] if _is_open(each, state)]
            commands = [each["command"] for each in admitted]
            if commands != sorted(seen.admissible_commands):
                raise SystemExit(f"game {number}: {sorted(set(commands) ^ set(seen.admissible_commands))}")
            compared += 1
            chosen = draw.choice(admitted)
            state = state & ~chosen["removes"] | chosen["adds"]
            seen, _, is_over = environment.step(chosen["command"])
            if is_over:
                break
    return compared


def _is_open(action: dict[str, Any], state: int) -> bool:
    return state & action["needs"] == action["needs"]


if __name__ == "__main__":
    written = game_facts(sys.argv[1])
    if len(sys.argv) > 3:
        print(f"{compare(written, sys.argv[3]):,} steps of {GAMES} games admit the same commands")
    Path(sys.argv[2]).write_text(json.dumps(written))
