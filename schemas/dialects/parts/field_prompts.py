"""The words in messages that DSPy's chat adapter formats as named fields.

The system prompt lists the fields. A user's message holds the input fields, an answer the output fields, each
behind a line `[[ ## name ## ]]` (stanfordnlp/dspy: `dspy/adapters/chat_adapter.py`, `dspy/predict/react.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...span import Span, Value
from ..names import openinference_0_1 as oi
from .message_parts import kind_of, text_of_parts
from .values import is_object

_LISTED = re.compile(
    r"Your input fields are:\n(?P<inputs>.*?)\nYour output fields are:\n(?P<outputs>.*?)"
    r"\nAll interactions will be structured in the following way, with the appropriate values filled in\.\n",
    re.DOTALL,
)
_NAME = re.compile(r"^\d+\. `(\w+)` \(", re.MULTILINE)
_MARK = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?", re.MULTILINE)
_REQUEST = "\n\nRespond with the corresponding output fields, starting with the field `[[ ## "
_NONE = "None"
"""The text of a missing field in an earlier answer."""
_TRAJECTORY = "trajectory"
"""The input field in which `ReAct` gives the model the results of its tools."""
_NO_WORDS = frozenset({"history", _TRAJECTORY, "reasoning", "completed"})
"""Fields that are no words: earlier messages and tools' results, which other spans have, and thoughts."""
_CHOOSES_TOOLS = frozenset({"next_tool_name", "tool_calls"})
"""Output fields in which a model chooses tools (`ReAct`, `ReActV2`); each tool has a span of its own."""


@dataclass(frozen=True, slots=True)
class PromptFields:
    """The names of the fields that a system prompt lists."""

    inputs: Sequence[str]
    outputs: Sequence[str]


def fields_of(span: Span) -> PromptFields | None:
    """Return the fields that the system prompt of a model's span lists; None where it lists none."""
    prompt = span.attributes.get(f"{oi.INPUT_MESSAGES}.0.message.content")
    listed = _LISTED.search(prompt) if isinstance(prompt, str) else None
    if listed is None:
        return None
    return PromptFields(_NAME.findall(listed["inputs"]), [*_NAME.findall(listed["outputs"]), "completed"])


def in_words(messages: list[Value], fields: PromptFields) -> list[Value]:
    """Return messages of fields as messages of words; None for one that cannot be read.

    A prompt with results of tools repeats the question, and an answer that is left out has nothing new before
    it. A listed field that is in a message twice may be text of a user or a tool: such a message cannot be
    read. Where several fields may be the words, all are, with their names.
    """
    messages_read: list[Value] = []
    for message in messages:
        role = kind_of(message, "role") if is_object(message) else ""
        if not is_object(message) or role not in ("user", "assistant"):
            messages_read.append(message)
            continue
        values = _values(message, fields.inputs if role == "user" else fields.outputs)
        if values is None:
            messages_read.append(None)
        elif role == "user" and values.get(_TRAJECTORY):
            return []
        elif _CHOOSES_TOOLS.isdisjoint(values) and (message is messages[-1] or not _is_left_out(values)):
            messages_read.append({"role": role, "content": _words(values)})
        else:
            messages_read.clear()
    return messages_read


def _values(message: dict[str, Value], names: Sequence[str]) -> dict[str, str] | None:
    """Return a message's fields by name; None where one comes twice, or where it does not begin with one."""
    text = text_of_parts(message) or ""
    text = text.rpartition(_REQUEST)[0] or text
    marks = [mark for mark in _MARK.finditer(text) if mark[1] in names]
    if not marks or marks[0].start() or len({mark[1] for mark in marks}) < len(marks):
        return None
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return {mark[1]: text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)}


def _is_left_out(values: dict[str, str]) -> bool:
    return all(value == _NONE for name, value in values.items() if name not in _NO_WORDS)


def _words(values: dict[str, str]) -> str:
    words = {name: value for name, value in values.items() if name not in _NO_WORDS}
    if len(words) == 1:
        return next(iter(words.values()))
    return "\n".join(f"{name}: {value}" for name, value in words.items())
