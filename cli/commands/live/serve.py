"""`tracline serve`: receive spans, judge them, show the verdicts and archive the events."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ...missing_package import live_error
from ...options import Command, NumberType, Several, archive_option, notes, rules_option, token_option
from ...source import timezone_option
from ..predict.reading import followed_by, read_chain

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ....archive.manifest import ManifestSource
    from ....archive.writer import ArchiveWriter
    from ....rules.model.rule import RuleSet
    from ....stream.console.risks import ServedChain
    from ....stream.serve.service import Service

    ReadChain = Callable[[RuleSet], ServedChain | None]

HTTP_PORT = 4318
GRPC_PORT = 4317


@click.command("serve", cls=Command)
@rules_option(required=False)
@click.option(
    "--open",
    "opened",
    cls=Several,
    metavar="ARCHIVE",
    help="Show these archives in the console, read only; receive nothing.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("tracline-state"),
    show_default=True,
    metavar="FOLDER",
    help="The state folder, which a restart resumes from.",
)
@archive_option()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=HTTP_PORT,
    show_default=True,
    help="The port for OTLP/HTTP, console and metrics.",
)
@click.option(
    "--grpc-port",
    type=click.IntRange(0, 65535),
    default=GRPC_PORT,
    show_default=True,
    help="The port for OTLP/gRPC; 0 disables it.",
)
@click.option(
    "--predict",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="CHAIN",
    help="Follow the risks of the chain in sessions that begin, and warn.",
)
@click.option(
    "--above",
    type=NumberType(0, 1, min_open=True),
    metavar="P",
    help="The threshold of rules for which the chain guarantees none.",
)
@token_option("The bearer token for senders and readers; required unless the address is local.")
@timezone_option()
def command(
    rules: tuple[str, ...],
    opened: tuple[str, ...],
    state: Path,
    archive: Path,
    host: str,
    port: int,
    grpc_port: int,
    predict: Path | None,
    above: float | None,
    token: str | None,
    timezone: str,
) -> None:
    """Receive OpenTelemetry spans, judge the sessions of agents and archive their events, in one process.

    Agents send OTLP over HTTP or gRPC. The port of OTLP/HTTP also serves the console, /metrics, /healthz and
    /readyz. A crash loses no acknowledged request: restart the process with the same --state and --archive.

    --open shows each ARCHIVE, which may be anything that `tracline audit` reads, with the verdicts of an
    audit by --rules. Nothing is received or changed; --state, --archive and --grpc-port do not apply.

    --predict follows a chain of `tracline predict learn`, and warns of sessions in which a rule is likely to
    be violated within the next events; the console shows risks over sessions, and why.
    """
    if predict is None and above is not None:
        raise click.UsageError("--above requires --predict.")
    if opened:
        _refuse_live_options()
        from .open_archive import open_archive

        open_archive(opened, rules, host, port, token, timezone, _chain(predict, above))
        return
    if not rules:
        raise click.MissingParameter(
            ctx=click.get_current_context(), param_hint="'--rules'", param_type="option"
        )
    try:
        service = _service(rules, state, archive, _chain(predict, above))
        _run(service, host, port, grpc_port or None, token)
    except Exception as error:
        if (failure := live_error(error, "tracline serve")) is None:
            raise
        raise failure from error


def _service(rules: tuple[str, ...], state: Path, archive: Path, chain: ReadChain) -> Service:
    """Return the service of the rules, which were tried; the archive has them."""
    from ....rules.compiler.compile import compile_rules
    from ....rules.packs.load import load_packs
    from ....stream.process.trial import begin_trial

    rule_set = load_packs(rules)
    compile_rules(rule_set.rules)
    # The trial's process loads its modules while this one does.
    trial = begin_trial(rule_set.sources)
    from ....archive.rule_sets import write_rule_set
    from ....rules.engine.judge import compile_rule_set
    from ....rules.model.digest import rule_set_digest
    from ....stream.serve.service import Service
    from ...settings import session_settings

    trial.require()
    compiled = compile_rule_set(rule_set)
    write_rule_set(archive, rule_set_digest(rule_set), rule_set.sources)
    archive_for = partial(serve_archive, archive)
    return Service(compiled, state, session_settings(), archive_for, notes(), chain(rule_set))


def _chain(folder: Path | None, above: float | None) -> ReadChain:
    """Return a function that reads the chain in a folder for a rule set, if there is one."""

    def read(rule_set: RuleSet) -> ServedChain | None:
        if folder is None:
            return None
        from ....stream.console.risks import ServedChain

        learned = read_chain(folder)
        return ServedChain(learned, followed_by(learned, rule_set, above))

    return read


def _run(service: Service, host: str, port: int, grpc_port: int | None, token: str | None) -> None:
    """Run the service until it is stopped."""
    import asyncio

    from ....stream.ingest.server.sockets import Address
    from ....stream.serve.service import serve

    asyncio.run(serve(service, Address(host, port, token), grpc_port))


def _refuse_live_options() -> None:
    """Raise a usage error if an option was given that has no meaning with --open."""
    ctx = click.get_current_context()
    for name in ("state", "archive", "grpc_port"):
        if ctx.get_parameter_source(name) not in (ParameterSource.DEFAULT, None):
            raise click.UsageError(f"--open and --{name.replace('_', '-')} exclude each other.")


@dataclass(frozen=True, slots=True)
class ServeArchive:
    """An archive for the judged events of one store."""

    writer: ArchiveWriter
    source: ManifestSource

    def write(self, rows: Sequence[bytes], first: int, last: int) -> None:
        """Write the judged events with these numbers, except those that the archive has."""
        import polars as pl

        from ....archive.writer import CHAIN_COLUMN, RULES_COLUMN
        from ....stream.serve.rows import chains_of, frame_of, rules_of

        columns = [pl.Series(RULES_COLUMN, rules_of(rows), pl.String)]
        if (chains := chains_of(rows)) is not None:
            columns.append(pl.Series(CHAIN_COLUMN, chains, pl.String))
        self.writer.write(frame_of(rows).with_columns(columns), self.source, (first, last))

    def mark(self, watermark: int) -> None:
        """Enter the watermark up to which the archive has all judged events."""
        self.writer.mark(self.source, watermark)


@contextmanager
def serve_archive(root: Path, store_id: str) -> Generator[ServeArchive]:
    """Open the archive at `root` for a store. Raises SourceError if its manifest is damaged."""
    from ....archive.manifest import ManifestSource
    from ....archive.writer import archive_writer

    with archive_writer(root) as writer:
        yield ServeArchive(writer, ManifestSource("serve", store_id))
