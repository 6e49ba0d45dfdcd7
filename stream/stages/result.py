"""The result of a step, the same type for every stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

OutputT = TypeVar("OutputT", covariant=True)
WritesT = TypeVar("WritesT", covariant=True)
MetricsT = TypeVar("MetricsT", covariant=True)


@dataclass(frozen=True, slots=True)
class StageResult(Generic[OutputT, WritesT, MetricsT]):
    """The values that a step returns; the state that the step was given is as it was.

    `outputs` are values for readers of the stage, in their order. `writes` is what changes in the state: the
    driver makes it durable in the order of its commit policy, and only then applies it to the state that it
    owns. A driver that cannot commit drops the result, and steps again from the same state. `metrics` are the
    counts of the step, which the driver adds once the step is committed.
    """

    outputs: tuple[OutputT, ...]
    writes: WritesT
    metrics: MetricsT
