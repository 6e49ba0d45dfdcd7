"""`tracline stream lag`: the lag of each process of the pipeline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ...options import Command, format_option
from ...terminal import plain_console
from .group import broker_option

if TYPE_CHECKING:
    from ....stream.kafka.lag import Lag


@click.command("lag", cls=Command)
@broker_option()
@format_option("table", "json")
def command(bootstrap_servers: str | None, format: str) -> None:
    """Show the lag of each process by partition.

    The marker of a transaction has an offset like a record: with a lag of one, a process may have read every
    record.
    """
    from ....stream.kafka.lag import lags
    from ....stream.kafka.preflight import administering
    from ...settings import kafka_settings

    settings = kafka_settings({"bootstrap_servers": bootstrap_servers})
    with administering(settings, "lag") as admin:
        found = lags(admin, settings)
    if format == "json":
        click.echo(json.dumps([asdict(lag) for lag in found], indent=2))
    else:
        print_lags(found)


def print_lags(found: Sequence[Lag]) -> None:
    """Print the lags as a table."""
    from rich.table import Table

    console = plain_console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("process", "topic"):
        table.add_column(name, no_wrap=True)
    for name in ("partition", "committed", "end", "lag"):
        table.add_column(name, justify="right", no_wrap=True)
    for lag in found:
        committed = "·" if lag.committed is None else f"{lag.committed:,}"
        table.add_row(lag.process, lag.topic, str(lag.partition), committed, f"{lag.end:,}", f"{lag.lag:,}")
    console.print(table)
