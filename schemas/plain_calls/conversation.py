"""The last plain calls of a session's conversations, as later calls continue them."""

from __future__ import annotations

import msgspec

from ..candidate import Claim
from ..dialects.parts.remembered import REMEMBERED_CHARS_MAX
from ..sessions.span_reading import CONVERSATIONS_MAX
from .found_messages import FoundMessages
from .message_loops import REFUSED
from .read_message import AskedCalls, ReadMessage

_SPACE = b" \t\r\n"


class OnlyReply(msgspec.Struct):
    """The only message of an output: its claims with their characters, and its other form, if it has one."""

    claims: list[Claim]
    chars: int
    read: ReadMessage | None

    def is_in(self, row: int, found: FoundMessages) -> bool:
        """Return whether a message of an input repeats it."""
        if self.read is not None or row in found.read:
            return self.read is found.read.get(row)
        return self.claims[0].key == found.key(row)


class PlainCall(msgspec.Struct):
    """The last call of a conversation: the text of its input without the last bracket, and its claims.

    `count` is the number of its messages, and `answered` whether an answer is among them. `past` are the
    claims up to the last answer, without a time, with their characters; `behind` are the others, with the
    time of the call. `reply` is its answer, and `parts` the JSON of the
    parts of an answer with calls, as it was read. `chain` continues keys and digest, in the `row` of the
    batch.
    """

    text: bytes = b""
    count: int = 0
    answered: bool = False
    past: list[Claim] = []
    chars: int = 0
    behind: list[Claim] = []
    behind_chars: int = 0
    asked: AskedCalls = msgspec.field(default_factory=AskedCalls)
    reply: OnlyReply | None = None
    parts: tuple[bytes, ReadMessage] | None = None
    chain: bytes = b""
    row: int = REFUSED


class PlainCalls(msgspec.Struct):
    """The last calls of a session's conversations, the latest first; `is_odd` once a message of one was.

    `chars` are the bytes of the remembered inputs. It is a cache: with it and without, calls have the same
    claims.
    """

    calls: list[PlainCall] = []
    is_odd: bool = False
    chars: int = 0

    def continued(self, data: bytes, begin: int, stop: int) -> tuple[PlainCall, int]:
        """Return the call that an input continues, else a new one in the place of the oldest.

        With the number of bytes that the input repeats; the call has the input's text from now on.
        """
        call, size = self._of(data, begin, stop)
        text = data[begin : stop - 1] if stop - begin <= REMEMBERED_CHARS_MAX else b""
        if text[-1:] in _SPACE:
            text = text.rstrip(_SPACE)
        if len(text) == 1:
            # A list without messages.
            text = b""
        self.chars += len(text) - len(call.text)
        call.text = text
        return call, size

    def _of(self, data: bytes, begin: int, stop: int) -> tuple[PlainCall, int]:
        calls = self.calls
        for place, call in enumerate(calls):
            size = len(call.text)
            if 0 < size < stop - begin and data.startswith(call.text, begin):
                if place:
                    del calls[place]
                    calls.insert(0, call)
                return call, size
        for call in calls[CONVERSATIONS_MAX - 1 :]:
            self.chars -= len(call.text)
        del calls[CONVERSATIONS_MAX - 1 :]
        calls.insert(0, PlainCall())
        return calls[0], 0

    def leave(self) -> None:
        """Leave the session to the ordinary way."""
        self.calls, self.is_odd, self.chars = [], True, 0
