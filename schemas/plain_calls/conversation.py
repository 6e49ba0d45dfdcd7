"""The last plain calls of a session's conversations, as later calls continue them."""

from __future__ import annotations

import msgspec

from ..candidate import Claim
from ..dialects.parts.remembered import REMEMBERED_CHARS_MAX
from ..sessions.span_reading import CONVERSATIONS_MAX
from .message_loops import REFUSED
from .read_message import AskedCalls, ReadMessage

_SPACE = b" \t\r\n"
_LAST_SPACES = frozenset(_SPACE)


class PlainCall(msgspec.Struct):
    """The last call of a conversation: the text of its input without the last bracket, and its claims.

    `past` are the claims up to the last answer, without a time, with their characters; `behind` are the
    others, with the time of the call. `reply` are the claims of its output of one message, with their
    characters and that message where it is in another form. `asked` are the calls of tools, `parts` the JSON
    of the last parts that were read of an output. `chain` continues keys and digest, in a `row` of a batch.
    """

    text: bytes = b""
    past: list[Claim] = []
    chars: int = 0
    behind: list[Claim] = []
    behind_chars: int = 0
    reply: tuple[list[Claim], int, ReadMessage | None] | None = None
    asked: AskedCalls = msgspec.field(default_factory=AskedCalls)
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
        calls, size = self.calls, 0
        for call in calls:
            size = len(call.text)
            if 0 < size < stop - begin and data.startswith(call.text, begin):
                break
        else:
            call, size = self._new(), 0
        if call is not calls[0]:
            self.calls = [call, *(each for each in calls if each is not call)]
        text = data[begin : stop - 1] if stop - begin <= REMEMBERED_CHARS_MAX else b""
        if text and text[-1] in _LAST_SPACES:
            text = text.rstrip(_SPACE)
        if len(text) == 1:
            # A list without messages.
            text = b""
        self.chars += len(text) - len(call.text)
        call.text = text
        return call, size

    def _new(self) -> PlainCall:
        """Add a new call in the place of the oldest, and return it."""
        for call in self.calls[CONVERSATIONS_MAX - 1 :]:
            self.chars -= len(call.text)
        del self.calls[CONVERSATIONS_MAX - 1 :]
        call = PlainCall()
        self.calls.append(call)
        return call

    def leave(self) -> None:
        """Leave the session to the ordinary way."""
        self.calls, self.is_odd, self.chars = [], True, 0
