"""A consumer joins its group, whenever its polls end."""

from __future__ import annotations

from contextlib import closing

import pytest
from tracline.stream.kafka.moves import Moves, join
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.topic import Topic

from .rekeying import until
from .stage import TIMEOUT_S

pytestmark = pytest.mark.slow


def test_what_the_group_answers_between_two_polls_is_not_left(topics: KafkaSettings) -> None:
    """A consumer that joins anew since partitions became known has them, though no poll saw the answer."""
    moves = Moves()

    def is_divided() -> bool:
        consumer.poll(100)
        return moves.is_divided

    with closing(join(topics, "archive", topics.topic(Topic.JUDGED), float(TIMEOUT_S), moves)) as consumer:
        until("it has joined", is_divided)
        coordinator = consumer._coordinator
        # As if its partitions had not been known when they were divided.
        coordinator._assignment_snapshot = {}
        consumer.poll(0)
        assert not moves.is_divided
        until("the group has answered", lambda: coordinator._join_task.is_done)
        until("it has joined again", is_divided)
        assert moves.owned == {0, 1, 2, 3}
