"""TRAC's TextWorld over a small game, and its rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tracline.examples.papers.environments.cooking_game import CookingGame
from tracline.examples.papers.environments.environment import Action, RuleMonitor

KITCHEN, HALL, ON_TABLE, HELD, ON_COUNTER = (1 << place for place in range(5))
COMMANDS = {
    "take knife from table": (KITCHEN | ON_TABLE, ON_TABLE, HELD),
    "put knife on counter": (KITCHEN | HELD, HELD, ON_COUNTER),
    "drop knife": (HALL | HELD, HELD, 0),
    "slice red hot pepper with knife": (KITCHEN | HELD, 0, 0),
    "examine knife": (KITCHEN, 0, 0),
    "examine counter": (KITCHEN, 0, 0),
    "inventory": (0, 0, 0),
    "go west": (KITCHEN, KITCHEN, HALL),
    "go east": (HALL, HALL, KITCHEN),
}
"""Commands with the facts that they need, remove and add; the knife is the only thing that moves."""

BROKEN = {
    "examine-what-is-taken": ("take knife from table", "examine counter"),
    "use-the-knife": ("take knife from table", "examine knife"),
    "inventory-in-kitchen": ("go west", "go east", "goal"),
    "never-drop": ("take knife from table", "go west", "drop knife"),
    "leave-after-examining": ("examine counter", "inventory"),
    "goal-after-inventory": ("inventory", "goal", "go west"),
    "look-after-the-knife": ("take knife from table", "put knife on counter", "examine knife", "goal"),
}
"""Commands that violate each rule at the last of them, and not before."""


@pytest.fixture
def game(tmp_path: Path) -> CookingGame:
    """Return a game of a kitchen and a hall."""
    file = tmp_path / "facts.json"
    actions = [
        {"command": command, "needs": needs, "removes": removes, "adds": adds}
        for command, (needs, removes, adds) in COMMANDS.items()
    ]
    rooms = {"kitchen": KITCHEN, "hall": HALL}
    file.write_text(json.dumps({"start": KITCHEN | ON_TABLE, "rooms": rooms, "actions": actions}))
    return CookingGame(file)


def played(game: CookingGame, *commands: str) -> list[Action]:
    """Return the actions of commands, each of which its state must admit."""
    state, found = game.start(), list[Action]()
    for command in commands:
        tool, _, rest = command.partition(" ")
        item = rest.split(" from ")[0].split(" on ")[0].split(" with ")[0]
        [action] = [
            each for each in game.actions(state) if each.tool == tool and dict(each.args)["item"] == item
        ]
        found.append(action)
        state = game.after(state, action)
    return found


@pytest.mark.parametrize(("rule", "commands"), BROKEN.items())
def test_each_rule_is_violated_at_the_last_command(
    game: CookingGame, rule: str, commands: tuple[str, ...]
) -> None:
    """The rule is violated at the last action and at none before."""
    monitor = RuleMonitor(game.pack)
    assert monitor.rules == tuple(BROKEN)
    states, found = monitor.first, list[bool]()
    for action in played(game, *commands):
        states, violated = monitor.step(states, action)
        found.append(bool(violated[monitor.rules.index(rule)]))
    assert found == [False] * (len(found) - 1) + [True]


def test_a_game_admits_what_its_facts_allow(game: CookingGame) -> None:
    """The task can be read everywhere; what is taken can be used, and is known as taken for one step."""
    start = {(each.tool, dict(each.args)["item"]) for each in game.actions(game.start())}
    assert start == {
        *(("goal", ""), ("inventory", ""), ("go", "west"), ("take", "knife")),
        *(("examine", "knife"), ("examine", "counter")),
    }
    take, look, again = played(game, "take knife from table", "examine knife", "examine knife")
    assert dict(take.args) == {
        "item": "knife", "place": "table", "room": "kitchen", "to": "kitchen", "was_taken": "no"
    }  # fmt: skip
    assert (dict(look.args)["was_taken"], dict(again.args)["was_taken"]) == ("yes", "no")
    way = played(game, "go west")[0]
    assert (dict(way.args)["room"], dict(way.args)["to"]) == ("kitchen", "hall")
    cut = played(game, "take knife from table", "slice red hot pepper with knife")[1]
    assert (dict(cut.args)["item"], dict(cut.args)["place"]) == ("red hot pepper", "knife")
