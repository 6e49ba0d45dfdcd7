"""The input of a model's call, remembered, so that a later call that repeats it is read from there on.

Agents send the whole conversation with each call. A memory is a cache: with it and without, a text is read
as the same messages.
"""

from __future__ import annotations

import msgspec

from ...span_content import Message, Role

REMEMBERED_CHARS_MAX = 1 << 20
"""Characters of a text that is remembered."""
_SPACE = " \t\r\n"


class InputMemory(msgspec.Struct):
    """A JSON list of messages with roles, as it was read: the text without its last bracket.

    `count` is the number of its members, `speaker` the role of a member without one. Empty, it is continued
    by no text.
    """

    text: str = ""
    messages: tuple[Message, ...] = ()
    count: int = 0
    speaker: Role = Role.USER

    def remember(self, text: str, messages: tuple[Message, ...] | None, count: int, speaker: Role) -> None:
        """Remember a text and its messages; forget both where it cannot be continued."""
        self.text = "" if messages is None else begin_of(text)
        self.messages, self.count, self.speaker = messages or (), count, speaker

    def is_in(self, text: str) -> bool:
        """Return whether a text begins with the remembered one."""
        return bool(self.text) and text.startswith(self.text)

    def rest_of(self, text: str, speaker: Role) -> str | None:
        """Return the JSON list of the members that a text has behind the remembered ones.

        None where the text does not begin with the remembered one. The list may be no JSON; then neither is
        the text.
        """
        if speaker is not self.speaker or not self.is_in(text):
            return None
        return rest_behind(text, self.text, self.count)


def begin_of(text: str) -> str:
    """Return a JSON list without its last bracket, as longer ones begin; empty where it is not remembered."""
    is_list = text[-1:] == "]" and len(text) <= REMEMBERED_CHARS_MAX
    return text[:-1].rstrip(_SPACE) if is_list else ""


def rest_behind(text: str, begin: str, count: int) -> str | None:
    """Return the JSON list of the members of a list behind those in its `begin`, which are so many.

    None where the text does not go on with a member or end.
    """
    size = len(begin)
    if count and text.startswith(", {", size):
        return f"[{text[size + 1 :]}"
    rest = text[size:].lstrip(_SPACE)
    if not count or rest == "]":
        return f"[{rest}" if begin else rest
    return f"[{rest[1:]}" if rest[:1] == "," and rest[1:].lstrip(_SPACE)[:1] == "{" else None


class RememberedText(str):
    """A text of messages with the memory of an earlier one, which it may continue."""

    memory: InputMemory

    def __new__(cls, text: str, memory: InputMemory) -> RememberedText:
        """Return the text with a memory, which is that of this text once it was read."""
        made = super().__new__(cls, text)
        made.memory = memory
        return made
