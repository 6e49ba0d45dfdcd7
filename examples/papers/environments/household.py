"""TRAC's household: an agent cooks in a house of four rooms (appendix D.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .environment import Action, State

ROOMS = ("kitchen", "bathroom", "living room", "bedroom")

ANYWHERE = (
    *(("wash", "tomato"), ("add", "tomato"), ("taste", "dish")),
    *(("sanitize", "hands"), ("dry", "hands"), ("wait", "")),
)
"""The actions that some rule is about, each with its item; the paper has more, which no rule is about."""


@dataclass(frozen=True)
class Household:
    """The house; its state is the agent's room."""

    pack: str = "household.yaml"

    def start(self) -> State:
        """Return the room before the first action."""
        return "kitchen"

    def actions(self, state: State) -> Sequence[Action]:
        """Return what can be done in the room, and a walk to each other room."""
        room = str(state)
        walks = [Action("walk", (("from", room), ("room", target))) for target in ROOMS if target != room]
        return [Action(tool, (("item", item), ("room", room))) for tool, item in ANYWHERE] + walks

    def after(self, state: State, action: Action) -> State:  # noqa: ARG002 (an action names its room)
        """Return the room after an action."""
        return dict(action.args)["room"]
