"""`tracline alerts backtest`: the alarms that would have fired over an archive."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....schemas.time import rfc3339
from ...options import Command, Instant, format_option, rules_option
from ...source import allow_rejected_option, chat_options, sources_argument, timezone_option
from ...terminal import clean, plain_console
from ..audit.predicting import PredictOptions, predict_options
from ..audit.tolerated_rates import read_rates
from .group import PREDICT_HELP, TICK_S, StatusHistory, note_unlearned, read_history

if TYPE_CHECKING:
    from ....stream.alerts.rates import Rates
    from ....stream.alerts.watch import AlarmChange

AGENT_WIDTH = 30


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """The result of a backtest: the time range, its parameters, and the changes of alarms.

    `watched` counts the pairs of rule and agent, `ticks` the ticks of all pairs in which a session counted.
    `learned` counts the sessions that the rates were learned from, None with rates of a file; `undated` those
    that were left out because they have no times.
    """

    since: int
    until: int
    tick_s: int
    arl_ticks: int
    watched: int
    ticks: int
    overdue: int
    learned: int | None
    undated: int
    changes: list[AlarmChange]


@click.command("backtest", cls=Command)
@sources_argument("archive", "ARCHIVE")
@rules_option()
@click.option(
    "--rates",
    "rates_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Tolerated rates, from `tracline alerts rates`.",
)
@click.option(
    "--history",
    type=Instant(),
    metavar="UNTIL",
    help="Learn rates before this time and watch from it on.  [default: half of the time]",
)
@click.option(
    "--tick-s",
    type=click.IntRange(min=1),
    metavar="S",
    help=f"Seconds of event time per tick.  [default: {TICK_S}, or that of FILE]",
)
@click.option(
    "--arl",
    type=click.IntRange(min=2),
    default=8640,
    show_default=True,
    metavar="TICKS",
    help="The minimum mean number of ticks between false alarms of one rule and agent.",
)
@predict_options(PREDICT_HELP)
@timezone_option()
@chat_options()
@allow_rejected_option()
@format_option("table", "json")
def command(
    archive: tuple[str, ...],
    rules: tuple[str, ...],
    rates_file: Path | None,
    history: int | None,
    tick_s: int | None,
    arl: int,
    predicting: PredictOptions,
    timezone: str,
    allow_rejected: int,
    format: str,
) -> None:
    """Show when alarms would have fired over an archive, and when they would have been resolved.

    The command judges the archive and counts the sessions that violate each rule, by agent and tick, like
    `tracline stream alerts`. Without --rates it learns the tolerated rates from the first part of the archive
    and watches the rest. An alarm is not a finding: the exit code is 0.
    """
    if rates_file is not None and (history is not None or tick_s is not None):
        raise click.UsageError("--rates cannot be combined with --history or --tick-s.")
    rates, learned = None if rates_file is None else read_rates(rates_file), None
    statuses = read_history(archive, rules, timezone, allow_rejected, predicting)
    if rates is None:
        from ....stream.alerts.history import learn_rates

        since = (statuses.first + statuses.last) // 2 if history is None else history
        history_read = statuses.before(since)
        note_unlearned(history_read)
        rates = learn_rates(history_read.statuses, tick_s or TICK_S, statuses.idle_s)
        learned = history_read.occurrences
        statuses = statuses.since(since)
    found = backtest(statuses, rates, arl, learned)
    if format == "json":
        click.echo(json.dumps(as_data(found), indent=2, ensure_ascii=False))
    else:
        print_alarms(found)


def backtest(
    history: StatusHistory, rates: Rates, arl_ticks: int, learned: int | None = None
) -> BacktestResult:
    """Watch the statuses with these rates, which were learned from that number of sessions."""
    from ....predict.detector import DetectorSettings
    from ....stream.alerts.history import replay_history
    from ....stream.alerts.rates import tolerance
    from ....stream.alerts.watch import Watch

    watch = Watch(tolerance(rates), DetectorSettings(arl_ticks=arl_ticks))
    # The time advances to the end of the last tick.
    changes = replay_history(history.statuses, watch, history.last + watch.counter.tick_ns)
    return BacktestResult(
        since=history.first,
        until=history.last,
        tick_s=rates.tick_s,
        arl_ticks=arl_ticks,
        watched=len(watch.detectors),
        ticks=watch.ticks,
        overdue=watch.counter.overdue.total(),
        learned=learned,
        undated=history.undated,
        changes=changes,
    )


def alarms(found: BacktestResult) -> list[tuple[AlarmChange, AlarmChange | None]]:
    """Return each alarm that fired with the change that resolved it, or None, in the order of firing."""
    from ....predict.detector import AlarmState

    firing: dict[Any, AlarmChange] = {}
    over: list[tuple[AlarmChange, AlarmChange | None]] = []
    for change in found.changes:
        if change.alarm.state is AlarmState.FIRED:
            firing[change.key] = change
        else:
            over.append((firing.pop(change.key), change))
    pairs = [*over, *((change, None) for change in firing.values())]
    return sorted(pairs, key=lambda pair: (pair[0].watermark, pair[0].key))


def as_data(found: BacktestResult) -> dict[str, Any]:
    """Return the result as plain data, with cleaned names of agents."""
    from ....stream.alerts.alert import kind_of
    from ....stream.alerts.counted_statuses import rule_id

    return {
        "since": rfc3339(found.since),
        "until": rfc3339(found.until),
        "tick_s": found.tick_s,
        "arl_ticks": found.arl_ticks,
        "watched": found.watched,
        "ticks": found.ticks,
        "false_alarms_expected_max": found.ticks / found.arl_ticks,
        "overdue": found.overdue,
        "learned_sessions": found.learned,
        "undated_sessions": found.undated,
        "alarms": [
            {
                "kind": kind_of(fired.key.pack, fired.key.rule).value,
                "pack": fired.key.pack,
                "rule": rule_id(fired.key.rule),
                "agent": clean(fired.key.agent),
                "fired": rfc3339(fired.watermark),
                "resolved": None if resolved is None else rfc3339(resolved.watermark),
                "violating": fired.alarm.violating,
                "applicable": fired.alarm.applicable,
                "observed": fired.alarm.observed,
                "tolerated": fired.alarm.tolerated,
            }
            for fired, resolved in alarms(found)
        ],
    }


def print_alarms(found: BacktestResult) -> None:
    """Print the alarms and a summary."""
    from rich.text import Text

    from ....stream.alerts.alert import kind_of
    from ....stream.alerts.counted_statuses import rule_id

    console = plain_console()
    pairs = alarms(found)
    for fired, resolved in pairs:
        over = "now" if resolved is None else _minute(resolved.watermark)
        alarm, agent = fired.alarm, clean(fired.key.agent, AGENT_WIDTH)
        name = rule_id(fired.key.rule)
        texts = {"content": "content not captured", "risk": f"at risk of {name}"}
        rule = (clean(texts.get(kind_of(fired.key.pack, fired.key.rule).value, name)), "bold red")
        console.print(Text.assemble(f"{_minute(fired.watermark)} to {over}  ", rule, f"  {agent}".rstrip()))
        sessions = f"{alarm.violating:,} of {alarm.applicable:,} sessions"
        console.print(Text(f"  {sessions}, {alarm.observed:.1%}; tolerated {alarm.tolerated:.1%}"))
    if pairs:
        console.print()
    if not found.watched:
        console.print("No rates watched: no rule applied to a session that began in this time.")
        return
    count = f"{len(pairs):,} {'alarm' if len(pairs) == 1 else 'alarms'}" if pairs else "No alarms"
    span = f"from {_minute(found.since)} to {_minute(found.until)} UTC"
    console.print(Text(f"{count} {span}, {found.watched:,} rates watched in ticks of {found.tick_s:,} s."))
    if found.learned is not None:
        console.print(Text(f"Rates learned from {found.learned:,} earlier sessions."))
    expected = found.ticks / found.arl_ticks
    console.print(Text(f"Expected false alarms: {expected:.2g} or fewer."))


def _minute(time: int) -> str:
    return rfc3339(time)[:16].replace("T", " ")
