"""The checks before a process starts: a broker listens and accepts it; and the errors if none does."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ..error import StreamError
from ..group.broker_errors import KafkaConnectionError, KafkaError
from . import properties
from .librdkafka.admin import Admin
from .settings import KafkaSettings, connecting

REASON_LENGTH_MAX = 200
LISTEN_S = 2.0
"""The seconds that `require_listener` usually waits for an address."""
BOOTSTRAP_S = 10.0
RETRY_S = 1.0
"""The seconds that a process waits before it asks again whether there is a broker."""
_AWAY = ("NoBrokersAvailable", "NodeNotReadyError", "KafkaTimeoutError", "RequestTimedOutError")
"""The errors of both clients that only mean that no broker has answered yet."""

Reply = TypeVar("Reply")


class BrokerAwayError(StreamError):
    """A broker that does not listen or does not answer (TRL723); one that refuses is no such error."""


def check_listening(settings: KafkaSettings, within_s: float) -> None:
    """Raise StreamError (TRL723) if no broker listens at any of the addresses.

    Clients look for a broker for long. Each address is waited for no longer than `within_s`.
    """
    refused: list[str] = []
    for server in settings.bootstrap_servers:
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=within_s).close()
            return
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            refused.append(f"{server}: {(reason or str(error)).lower()}")
    hint = "check that the brokers run, and bootstrap_servers"
    raise BrokerAwayError("TRL723", f"no broker listens ({'; '.join(refused)})", hint)


def authenticate(settings: KafkaSettings, process: str, within_s: float) -> None:
    """Raise StreamError (TRL723) with the reason if TLS or SASL fail at all of the addresses.

    aiokafka is asked, which raises a broker's error. librdkafka takes it for one that may pass, and goes on
    asking until its time is up.
    """
    if settings.security_protocol == "PLAINTEXT":
        return
    from aiokafka.errors import KafkaError as OtherKafkaError  # pyright: ignore[reportMissingTypeStubs]

    arguments = connecting(settings, process) | {"request_timeout_ms": int(within_s * 1000)}
    refused: Exception = OSError("no address")
    del arguments["bootstrap_servers"]
    with _logging_to(logging.NullHandler(), "aiokafka"):
        for server in settings.bootstrap_servers:
            try:
                asyncio.run(_connect(server, arguments))
                return
            except (OtherKafkaError, OSError) as error:
                refused = error
    cause = refused.__cause__ or refused
    why = str(cause).partition("\n")[0][:REASON_LENGTH_MAX]
    is_away = isinstance(cause, (ConnectionRefusedError, TimeoutError))
    raise refusal(refused, settings, why, is_away=is_away) from refused


async def _connect(server: str, arguments: dict[str, Any]) -> None:
    """Connect to one broker, and close the connection."""
    from aiokafka import conn  # pyright: ignore[reportMissingTypeStubs]

    host, _, port = server.rpartition(":")
    connection = await cast("Any", conn).create_conn(host.strip("[]"), int(port), **arguments)
    await connection.close()


def require_listener(settings: KafkaSettings, within_s: float) -> None:
    """Check like `check_listening`, for processes that try again; raise the error that a client would."""
    try:
        check_listening(settings, within_s)
    except StreamError as error:
        raise KafkaConnectionError(str(error)) from None


def refusal(
    error: Exception, settings: KafkaSettings, why: str = "", *, is_away: bool = False
) -> StreamError:
    """Return an error of a Kafka client as TRL723: which brokers were asked, and the error's name.

    The error's text may be a page long and quote what was sent. `is_away`: no broker has answered.
    """
    what = f"Kafka at {', '.join(settings.bootstrap_servers)}: {type(error).__name__}"
    hint = "check that the brokers run, their addresses, TLS and SASL, and what this user may do"
    kind = BrokerAwayError if is_away or type(error).__name__ in _AWAY else StreamError
    return kind("TRL723", f"{what} ({why})" if why else what, hint)


@contextmanager
def asking(settings: KafkaSettings) -> Generator[None]:
    """Turn an error of a client while the block runs into StreamError (TRL723)."""
    try:
        yield
    except KafkaError as error:
        raise refusal(error, settings) from error


@contextmanager
def _logging_to(handler: logging.Handler, name: str) -> Generator[None]:
    """Send the logs of that logger and those below it to the handler, and nowhere else."""
    logger = logging.getLogger(name)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


@contextmanager
def administering(settings: KafkaSettings, process: str = "topics") -> Generator[Admin]:
    """Yield an admin client.

    Raises StreamError: TRL721 and TRL722 of the settings, TRL723 where no broker answers, or one refuses.
    """
    admin = Admin(properties.connecting(settings, process), BOOTSTRAP_S)
    check_listening(settings, BOOTSTRAP_S)
    authenticate(settings, process, BOOTSTRAP_S)
    with asking(settings):
        yield admin


@dataclass(frozen=True, slots=True)
class StartWait:
    """The wait of a process at its start for a broker: up to `wait_s`, or until `stopping` is set."""

    wait_s: float
    stopping: threading.Event
    report: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic


def ask_when_reachable(
    settings: KafkaSettings, process: str, wait: StartWait, ask: Callable[[Admin], Reply]
) -> Reply | None:
    """Return what `ask` returns of the admin client, once a broker answers; None where the process is to end.

    Raises StreamError as `administering`: TRL723 after `wait_s` where no broker answers, and at once where
    one refuses.
    """
    until, is_reported = wait.clock() + wait.wait_s, False
    while not wait.stopping.is_set():
        try:
            with administering(settings, process) as admin:
                return ask(admin)
        except BrokerAwayError:
            if wait.clock() >= until:
                raise
        if not is_reported:
            wait.report(f"waiting for the broker, for up to {wait.wait_s:g} s")
            is_reported = True
        wait.stopping.wait(min(RETRY_S, max(0.0, until - wait.clock())))
    return None
