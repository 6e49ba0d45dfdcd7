"""The messages of the topic of risk crossings, which are JSON for other readers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...schemas.paged.grouping import grouped
from ...schemas.records.risk_crossing import RiskCrossing, decode_crossing, encode_crossing
from ...schemas.time import parse_time, rfc3339
from ..error import StreamError
from .codec import Damaged, Mark

VERSION = 1
"""Version of the messages; a reader refuses all others."""


class RiskMessage(msgspec.Struct, frozen=True):
    """The crossings of risk that one message of `tracline.events` causes, or a part of them."""

    mark: Mark
    watermark: int | None
    crossings: list[RiskCrossing]


class _RiskJson(msgspec.Struct, frozen=True):
    """The JSON of a `RiskMessage`, with its crossings as they are."""

    version: int
    partition: int
    offset: int
    index: int
    watermark: str | None
    crossings: list[msgspec.Raw]


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_RiskJson)


def risk_messages(
    mark: Mark, watermark: int | None, crossings: Iterable[RiskCrossing], bytes_max: int
) -> list[bytes]:
    """Return the JSON messages of crossings, each of about `bytes_max` at most; none without crossings.

    `{"version", "partition", "offset", "index", "watermark", "crossings": [...]}`: crossings are the lines
    of a bundle's `risk.jsonl`. Only the last message has the watermark.
    """
    time = None if watermark is None else rfc3339(watermark)
    encoded = [(data, len(data)) for data in map(encode_crossing, crossings)]
    groups = list(grouped(encoded, bytes_max))
    return [
        _ENCODER.encode(
            _RiskJson(
                version=VERSION,
                partition=mark.partition,
                offset=mark.offset,
                index=index,
                watermark=time if index == len(groups) - 1 else None,
                crossings=list(map(msgspec.Raw, group)),
            )
        )
        for index, group in enumerate(groups)
    ]


def decode_risk(data: bytes) -> RiskMessage:
    """Return a message of `tracline.risk`. Raises Damaged, or StreamError for another release's."""
    try:
        message = _DECODER.decode(data)
        watermark = None if message.watermark is None else parse_time(message.watermark)
        if watermark is None and message.watermark is not None:
            raise ValueError
        if message.version != VERSION:
            what = f"a message of tracline.risk has version {message.version}, not {VERSION}"
            raise StreamError("TRL731", what, "write and read the topic with one release")
        mark = Mark(message.partition, message.offset, message.index)
        return RiskMessage(mark, watermark, list(map(decode_crossing, message.crossings)))
    except (ValueError, RecursionError):
        # The text of these errors may quote what was read.
        raise Damaged("not a message of tracline: a record of tracline.risk") from None
