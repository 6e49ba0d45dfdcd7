"""Settings as data: those of session assembly. The command line loads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
NonEmpty = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class SessionSettings:
    """`[sessions]` of `tracline.toml`; all times in seconds of event time.

    `idle_s`: a session closes when the time has passed its last event by more than this. `lateness_s`: how
    long the live side waits for events that sort earlier. `hold_s`: how long a span waits for its trace's
    root, in record time. `tick_s`: how often quiet sources advance the time. `skew_s`: how far ahead of its
    record's timestamp a span's end may lie. `scope`: the resource attributes put before the session id, so
    that two tenants' equal ids stay apart.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    lateness_s: Seconds = 5.0
    hold_s: Seconds = 60.0
    idle_s: Seconds = 3600.0
    tick_s: Seconds = 1.0
    skew_s: Seconds = 60.0
    scope: tuple[NonEmpty, ...] = ()
