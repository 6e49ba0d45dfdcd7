"""The state in a partition of a compacted topic."""

from __future__ import annotations

from ..error import StreamError


class Latest:
    """The latest value of each key, of records that are put in their order."""

    def __init__(self, topic: str) -> None:
        """Begin without records; errors name the `topic`."""
        self._topic = topic
        self.values: dict[str, bytes] = {}

    def put(self, key: bytes | None, value: bytes | None) -> None:
        """Replace the value of the key; forget the key without a value.

        Raises StreamError (TRL731) for a record without a readable key.
        """
        try:
            name = (key or b"").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            name = ""
        if not name:
            hint = "only tracline may write to its topics: find the program that writes to this one"
            raise StreamError("TRL731", f"a record of {self._topic} was not written by tracline", hint)
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value
