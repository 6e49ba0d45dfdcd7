"""Python's search for cycles of objects, in processes that run for long."""

from __future__ import annotations

import gc

OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
"""New objects after which Python looks for cycles: a monitor had seven of them in one after 20,000 spans."""


def rarely_look_for_cycles() -> None:
    """Leave what was loaded to this process for good, and look rarely for cycles among later objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
