"""TRAC's recipe: pasta with vegetables, butter and cheese (appendix D.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from .environment import Action, State

COLD = ("butter", "cheese")
"""The ingredients that are in the fridge at first."""

ANYTIME = (
    *(("add", "onion"), ("add", "garlic"), ("add", "vegetables"), ("strain", "pasta"), ("boil", "pasta")),
    *(("wait", ""), ("use", "spoon"), ("taste", "dish"), ("serve", "dish"), ("wash", "spoon")),
)
"""What can be done at every time, each with its item."""


@dataclass(frozen=True)
class Recipe:
    """The kitchen; its state is the set of ingredients in the fridge."""

    pack: str = "recipe.yaml"

    def start(self) -> State:
        """Return what is in the fridge before the first action."""
        return frozenset(COLD)

    def actions(self, state: State) -> Sequence[Action]:
        """Return what can be done: cold ingredients are taken out before they are added or put back."""
        fridge = _fridge(state)
        cold = [("take", item) for item in COLD if item in fridge]
        warm = [(tool, item) for item in COLD if item not in fridge for tool in ("add", "put_back")]
        return [Action(tool, (("item", item),)) for tool, item in (*ANYTIME, *cold, *warm)]

    def after(self, state: State, action: Action) -> State:
        """Return what is in the fridge after an action."""
        item = dict(action.args)["item"]
        match action.tool:
            case "take":
                return _fridge(state) - {item}
            case "put_back":
                return _fridge(state) | {item}
            case _:
                return state


def _fridge(state: State) -> frozenset[str]:
    return cast("frozenset[str]", state)
