"""`tracline serve`: receive spans, judge them as they come, show and archive what was found."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...error import coded_error, package_error
from ...options import Command, notes, rules_option, token_option

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from ....archive.manifest import ManifestSource
    from ....archive.writer import ArchiveWriter

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
@token_option("What senders and readers must show; needed on other addresses than this machine's own.")
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

    from ....rules.compiler.compile import compile_rules
    from ....rules.packs.load import load_packs
    from ....stream.process.trial import begin_trial

    rule_set = load_packs(rules)
    compile_rules(rule_set.rules)
    # Its process loads what it needs while this one does.
    trial = begin_trial(rule_set.sources)
    from ....archive.rule_sets import write_rule_set
    from ....rules.engine.judge import statute_of
    from ....rules.model.digest import rule_set_digest
    from ...settings import session_settings

    try:
        from ....stream.error import StreamError
        from ....stream.ingest.server.sockets import Address
        from ....stream.serve.service import Service, serve
    except ModuleNotFoundError as error:
        if (told := package_error(error, "tracline serve")) is None:
            raise
        raise told from error

    try:
        trial.require()
    except StreamError as error:
        raise coded_error(error.code, "tracline serve", str(error), error.hint) from error
    statute = statute_of(rule_set)
    write_rule_set(archive, rule_set_digest(rule_set), rule_set.sources)
    service = Service(statute, state, session_settings(), partial(serve_archive, archive), notes())
    try:
        asyncio.run(serve(service, Address(host, port, token), grpc_port or None))
    except StreamError as error:
        raise coded_error(error.code, "tracline serve", str(error), error.hint) from error


@dataclass(frozen=True, slots=True)
class ServeArchive:
    """An archive to which the judged events of one store are written."""

    writer: ArchiveWriter
    origin: ManifestSource

    def write(self, rows: Sequence[bytes], first: int, last: int) -> None:
        """Write judged events with these numbers; those that are there already are left as they are."""
        import polars as pl

        from ....archive.writer import RULES_COLUMN
        from ....stream.serve.rows import frame_of, rules_of

        rules = pl.Series(RULES_COLUMN, rules_of(rows), pl.String)
        self.writer.write(frame_of(rows).with_columns(rules), self.origin, (first, last))

    def mark(self, watermark: int) -> None:
        """Enter how far what was judged is in the archive."""
        self.writer.mark(self.origin, watermark)


@contextmanager
def serve_archive(root: Path, store_id: str) -> Generator[ServeArchive]:
    """The archive at `root` for the store with that id. Raises SourceError where its manifest is damaged."""
    from ....archive.manifest import ManifestSource
    from ....archive.writer import archive_writer

    with archive_writer(root) as writer:
        yield ServeArchive(writer, ManifestSource("serve", store_id))
