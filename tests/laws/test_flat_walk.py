"""The walk reads spans with flattened messages as the dialects do, whatever is changed in them."""

from __future__ import annotations

from random import Random

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from tracline.stream.messages.topics import Topic

from ..support.conversations.rekeyed_loads import flat_load
from ..support.conversations.span_plan import Dialect
from .test_walk import agreed, generated

FLAT = (Dialect.OPENINFERENCE, Dialect.OPENLLMETRY)


@pytest.mark.parametrize("dialect", FLAT)
@pytest.mark.parametrize("seed", range(6))
def test_changed_spans_are_located_as_they_are_read(dialect: Dialect, seed: int) -> None:
    """Any attribute of these conventions may be missing, of another type, or beside those of others."""
    walked = count = 0
    for record in flat_load(seed, 0.5 if seed % 2 else 0.15, dialect):
        if record.topic is Topic.SPANS:
            found = agreed(record.value)
            count += len(found)
            walked += sum(span.is_walked for span in found)
    print(f"{dialect}, {seed}: {walked} of {count} spans are walked")
    assert count / 5 < walked < count


@pytest.mark.parametrize("dialect", FLAT)
def test_the_walk_alone_reads_what_is_usual(dialect: Dialect) -> None:
    """No span of a desk in these conventions needs the dialects."""
    found = [span for data in generated(dialect, "plain") for span in agreed(data)]
    assert len(found) > 50
    assert all(span.is_walked for span in found)


@pytest.mark.parametrize("dialect", FLAT)
def test_dropped_attributes_are_located_as_they_are_read(dialect: Dialect) -> None:
    """Spans lose any of their attributes, as SDKs drop them, with and without a count of these."""
    random = Random(f"dropped {dialect}")
    for data in generated(dialect, "trouble")[:4]:
        for _ in range(6):
            agreed(without_attributes(data, random))


def without_attributes(data: bytes, random: Random) -> bytes:
    """Return a request in which spans lack some attributes, and may have many more in their place."""
    request = TracesData.FromString(data)
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                left = [pair for pair in span.attributes if random.random() > 0.15]
                span.dropped_attributes_count = random.choice((0, 0, 0, len(span.attributes) - len(left)))
                more = random.choice((0, 0, 0, 128 - len(left), 129))
                added = [KeyValue(key=f"app.{n}", value=AnyValue(string_value="x")) for n in range(more)]
                del span.attributes[:]
                span.attributes.extend([*left, *added])
    return request.SerializeToString()
