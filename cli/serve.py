"""`tracline serve`: receive spans, judge them as they come, show and archive what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .error import told_error, world_error
from .options import Command, note, rules_option

if TYPE_CHECKING:
    from ..stream.service import Archive

HTTP_PORT = 4318
GRPC_PORT = 4317


@click.command("serve", cls=Command)
@rules_option()
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("tracline-state"),
    show_default=True,
    metavar="FOLDER",
    help="Where the state is kept that a restart goes on with.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("tracline-archive"),
    show_default=True,
    metavar="ARCHIVE",
    help="The archive to which judged events are written, for `tracline audit`.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=HTTP_PORT,
    show_default=True,
    help="The port of OTLP/HTTP, console and metrics.",
)
@click.option(
    "--grpc-port",
    type=click.IntRange(0, 65535),
    default=GRPC_PORT,
    show_default=True,
    help="The port of OTLP/gRPC; 0 for none.",
)
@click.option(
    "--token",
    envvar="TRACLINE_TOKEN",
    show_envvar=True,
    help="What senders and readers must show; needed on other addresses than this machine's own.",
)
def command(
    rules: tuple[str, ...],
    state: Path,
    archive: Path,
    host: str,
    port: int,
    grpc_port: int,
    token: str | None,
) -> None:
    """Receive OpenTelemetry spans, and judge, show and archive what agents do, in one process.

    Agents send OTLP over HTTP or gRPC. The console is on the same port as OTLP/HTTP, beside /metrics,
    /healthz and /readyz. Nothing that was acknowledged is lost when the process dies: start it again with
    the same --state and --archive.
    """
    import asyncio

    from ..rules.judge import statute_of
    from ..rules.pack import load_packs
    from .settings import session_settings

    try:
        from ..stream.error import StreamError
        from ..stream.service import Address, Service, serve
    except ModuleNotFoundError as error:
        hint = "install it with: pip install 'tracline[stream]'"
        raise world_error("TRL620", "tracline serve", f"needs the package {error.name}", hint) from error

    statute = statute_of(load_packs(rules))
    service = Service(statute, state, session_settings(), lambda name: _archive_to(archive, name), note)
    address = Address(host, port, grpc_port or None, token)
    try:
        asyncio.run(serve(service, address))
    except StreamError as error:
        raise told_error(error.code, "tracline serve", str(error), error.hint) from error


def _archive_to(root: Path, store_id: str) -> Archive:
    """What writes judged events into the archive, as those of the store with that id."""
    from collections.abc import Sequence

    from ..batch.archive import Origin, writing
    from ..stream.changes import frame_of

    origin = Origin("serve", store_id)

    def write(rows: Sequence[bytes], first: int, last: int) -> None:
        with writing(root) as writer:
            writer.write(frame_of(rows), origin, (first, last))

    return write
