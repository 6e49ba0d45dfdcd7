"""Bringing a rule set into force: one message in every events partition, all of them or none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from ...error import StreamError
from ...group.broker_errors import FENCED, KafkaError, MessageSizeTooLargeError
from ...group.client import OutgoingRecord
from ...messages.codec import Activation, encode
from ...messages.topics import Topic
from ..preflight import administering, refusal
from ..settings import KafkaSettings
from ..topic_checks import require
from ..topics import look
from ..transactions import Transactions
from .live_chains import require_chain

PROCESS = "activate"
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class ChainToFollow:
    """The digest of the chain that follows the rules; `is_forced` where monitors may lack it."""

    digest: str
    is_forced: bool = False


def activate(
    kafka: KafkaSettings,
    packs: Mapping[str, str],
    supersedes: Collection[str] = (),
    chain: ChainToFollow | None = None,
) -> int:
    """Write the packs, texts by their names, into every events partition, and return how many there are.

    `supersedes` are digests of rule sets that were activated before and are not to come into force.

    Of two that are written at a time one fails, so that every partition has them in the same order. Raises
    StreamError: TRL721 to TRL724 as `require`, TRL723 where Kafka does not answer, TRL733 where another
    activation came in between, TRL734 where the packs are too large for a message, TRL805 where a live
    monitor lacks the chain.
    """
    topic = kafka.topic(Topic.EVENTS)
    with administering(kafka, PROCESS) as admin:
        found = look(admin, kafka)
        require(found, kafka, Topic.EVENTS)
        if chain is not None and not chain.is_forced:
            require_chain(admin, kafka, chain.digest)
    count = found[Topic.EVENTS].partitions
    message = activation_of(kafka, packs, supersedes, None if chain is None else chain.digest)
    transactions = Transactions(kafka, PROCESS, "all", TIMEOUT_S)
    try:
        transactions.open()
        transactions.begin()
        transactions.produce(OutgoingRecord(topic, number, None, message) for number in range(count))
        transactions.commit()
    except FENCED:
        what = "another activation was written at the same time, and this one was not"
        raise StreamError("TRL733", what, "look which rules are to be in force, and activate them") from None
    except MessageSizeTooLargeError as error:
        hint = "tracline stream topics shows what is wrong with the topic"
        raise StreamError("TRL734", f"{topic} does not take messages as large as the packs", hint) from error
    except KafkaError as error:
        raise refusal(error, kafka) from error
    finally:
        transactions.discard()
    return count


def activation_of(
    kafka: KafkaSettings,
    packs: Mapping[str, str],
    supersedes: Collection[str] = (),
    chain: str | None = None,
) -> bytes:
    """Return the message that brings packs into force. Raises StreamError (TRL734) if they are too large."""
    followed_by = msgspec.UNSET if chain is None else chain
    message = encode(Activation(dict(packs), sorted(supersedes), followed_by))
    if len(message) > kafka.message_bytes_max:
        what = f"the packs have {len(message)} bytes, and a message may have {kafka.message_bytes_max}"
        raise StreamError("TRL734", what, "use fewer packs, or set a larger message_bytes_max")
    return message
