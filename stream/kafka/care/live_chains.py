"""The chains of live monitors: each has the digests of its chains in the name of its client.

Kafka shows the names of the clients of a group's members, so that no record outlives its monitor.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...error import StreamError
from ..librdkafka.admin import Admin
from ..settings import KafkaSettings

MONITOR = "monitor"
DIGEST_CHARS = 16
"""Characters of a digest in a client's name."""
_MARK = "+chains="


def client_name(settings: KafkaSettings, chains: Iterable[str]) -> str:
    """Return the name of a monitor's client that has these chains, by digest."""
    return settings.group(MONITOR) + _MARK + ".".join(sorted(digest[:DIGEST_CHARS] for digest in chains))


def chains_of(client: str) -> frozenset[str]:
    """Return the beginnings of the digests of the chains that a client's name has."""
    return frozenset(client.partition(_MARK)[2].split(".")) - {""}


def require_chain(admin: Admin, settings: KafkaSettings, digest: str) -> int:
    """Return the number of live monitors, all of which have the chain of that digest.

    Raises StreamError (TRL805) where one lacks it, or none is live.
    """
    clients = admin.group_clients(settings.group(MONITOR))
    lacking = sum(digest[:DIGEST_CHARS] not in chains_of(client) for client in clients)
    if lacking or not clients:
        what = f"{lacking} of {len(clients)} live monitors lack the chain {digest[:DIGEST_CHARS]}"
        if not clients:
            what = f"no monitor is live that has the chain {digest[:DIGEST_CHARS]}"
        hint = "start every monitor with --predict and a folder that has it, or activate with --force"
        raise StreamError("TRL805", what, hint)
    return len(clients)
