"""The chains that live monitors report by the names of their clients."""

from __future__ import annotations

import pytest
from tracline.stream.error import StreamError
from tracline.stream.kafka.care.live_chains import chains_of, client_name, require_chain
from tracline.stream.kafka.settings import KafkaSettings

KAFKA = KafkaSettings()
FIRST, SECOND = "ab" * 32, "cd" * 32


class Group:
    """The members of the monitors' group, as Kafka describes them."""

    def __init__(self, *clients: str) -> None:
        self.clients = clients

    def group_clients(self, _group: str) -> list[str]:
        """The clients of the only group."""
        return list(self.clients)


def test_a_client_is_named_by_the_beginnings_of_its_chains() -> None:
    """Another client's name has none."""
    assert chains_of(client_name(KAFKA, [SECOND, FIRST])) == {FIRST[:16], SECOND[:16]}
    assert chains_of("faust-0.15.3") == frozenset()


def test_all_live_monitors_have_the_chain() -> None:
    """One that has others, too, counts."""
    group = Group(client_name(KAFKA, [FIRST]), client_name(KAFKA, [FIRST, SECOND]))
    assert require_chain(group, KAFKA, FIRST) == 2


@pytest.mark.parametrize(
    ("clients", "what"),
    [
        (("faust-0.15.3", client_name(KAFKA, [FIRST])), "1 of 2 live monitors lack the chain abababab"),
        ((), "no monitor is live that has the chain abababab"),
    ],
)
def test_a_chain_that_a_monitor_lacks_is_refused(clients: tuple[str, ...], what: str) -> None:
    """TRL805 has the number of monitors that lack it; without a live one nobody would follow it."""
    with pytest.raises(StreamError, match=what) as caught:
        require_chain(Group(*clients), KAFKA, FIRST)
    assert caught.value.code == "TRL805"
