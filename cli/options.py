"""Options that commands share, and notes on standard error."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..schemas.time import parse_time

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from ..rules.model.rule import RuleSet

QUIET_KEY = "tracline.quiet"

F = TypeVar("F", bound=Callable[..., Any])


class NumberType(click.FloatRange):
    """A number in a range; click accepts `nan`, this type rejects it."""

    what = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a {self.what}.", param, ctx)
        return number


class SecondsType(NumberType):
    """A number of seconds in a range."""

    what = "number of seconds"


class Instant(click.ParamType):
    """A time or day as an argument: nanoseconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read `2026-02-17`, `2026-02-17T08:00` or with seconds and offset; the default zone is UTC."""
        if isinstance(value, int):
            return value
        ns = parse_time(value)
        if ns is None:
            ns = parse_time(f"{value}T00:00")
        if ns is None:
            self.fail(f"{value!r} is not a time: use 2026-02-17 or 2026-02-17T08:00:00Z", param, ctx)
        return ns


class Several(click.Option):
    """An option that takes all the values after it: `--rules a.yaml b.yaml --out X`.

    Repeating the flag adds values. The values end at the next flag or at `--`, so an argument must come
    before the option, after another option, or after `--`. Works in a `Command`; the parameter is a tuple of
    str.
    """

    def __init__(self, param_decls: Sequence[str] | None = None, **attrs: Any) -> None:
        attrs["multiple"] = True
        super().__init__(param_decls, **attrs)

    def make_metavar(self, ctx: click.Context) -> str:
        """Return the name in usage lines, with dots for further values."""
        return f"{super().make_metavar(ctx)}..."


class Command(click.Command):
    """A command of `tracline`, with `Several` options and `--quiet`."""

    def __init__(self, *args: Any, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.params.append(_quiet_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, once every further value of a `Several` option has its own flag."""
        flags = {
            flag: max(param.opts, key=len)
            for param in self.params
            if isinstance(param, Several)
            for flag in param.opts
        }
        spread = list(_spread(args, flags, ctx))
        try:
            return super().parse_args(ctx, spread)
        except click.MissingParameter as error:
            if spread == args or not isinstance(error.param, click.Argument):
                raise
            before = " and ".join(sorted(set(flags.values())))
            hint = f"Put {error.param.make_metavar(ctx)} before {before}, or after '--'."
            raise click.MissingParameter(hint, ctx, error.param) from error


def _spread(args: Sequence[str], flags: dict[str, str], ctx: click.Context) -> Iterator[str]:
    """Yield the arguments, `--rules a b` as `--rules a --rules b`; those after `--` are unchanged."""
    place = 0
    while place < len(args):
        flag = flags.get(args[place])
        if flag is None:
            yield args[place]
            if args[place] == "--":
                yield from args[place + 1 :]
                return
            place += 1
            continue
        first = place = place + 1
        while place < len(args) and not _is_flag(args[place]):
            yield from (flag, args[place])
            place += 1
        if place == first and not ctx.resilient_parsing:
            raise click.BadOptionUsage(flag, f"Option {flag!r} requires at least one value.", ctx)


def _is_flag(arg: str) -> bool:
    return arg.startswith("-") and arg != "-"


def _quiet_option() -> click.Option:
    def remember(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        ctx.meta[QUIET_KEY] = value

    return click.Option(
        ["--quiet", "-q"],
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Print no progress and no notes on standard error.",
    )


def quiet() -> bool:
    """Return whether the running command has `--quiet`."""
    return bool(click.get_current_context().meta.get(QUIET_KEY, False))


def note(text: str) -> None:
    """Print a note on standard error, unless `--quiet` is given. Results and errors are not notes."""
    if not quiet():
        click.echo(text, err=True)


def notes() -> Callable[[str], None]:
    """Return `note` for use in any thread: click knows the running command only in its own thread."""
    return (lambda _text: None) if quiet() else (lambda text: click.echo(text, err=True))


def colors() -> bool | None:
    """Return False if `NO_COLOR` is set, else None, which leaves the choice to the terminal."""
    return False if os.environ.get("NO_COLOR") else None


def decorated(command: Callable[..., Any], options: Sequence[Callable[[Any], Any]]) -> Any:
    """Return the command with options, which stand in this order in its help."""
    return reduce(lambda function, option: option(function), reversed(options), command)


def grouped_options(
    name: str, group: type[DataclassInstance], *options: Callable[[Any], Any]
) -> Callable[[F], F]:
    """Return options whose values a command takes as one dataclass: the argument `name`.

    The dataclass has a field for each option that exposes its value.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def with_group(**given: Any) -> Any:
            values = {field.name: given.pop(field.name) for field in fields(group)}
            return command(**given, **{name: group(**values)})

        return decorated(with_group, options)

    return decorate


def rules_option(*, required: bool = True) -> Callable[[F], F]:
    """Return the option `--rules PACK...`: `rules`, a tuple of str."""
    return click.option(
        "--rules",
        cls=Several,
        metavar="PACK",
        required=required,
        help="Rule packs: YAML files, folders of them, or names of shipped packs.",
    )


def selection_options() -> Callable[[F], F]:
    """Return the options `--select WORD...` and `--ignore WORD...`: two tuples of str."""

    what = "by id, pack, tag or severity"
    options = (
        click.option("--select", cls=Several, metavar="WORD", help=f"Take only these rules, {what}."),
        click.option("--ignore", cls=Several, metavar="WORD", help=f"Leave rules out, {what}."),
    )
    return lambda command: decorated(command, options)


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """The packs that a command loads, and the words that select some of their rules."""

    rules: tuple[str, ...]
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def is_given(self) -> bool:
        """Return whether any of the options is given."""
        return bool(self.rules or self.select or self.ignore)

    def load(self) -> RuleSet:
        """Load the packs and return the selected rules. Raises RuleError for errors and unknown words."""
        from ..rules.packs.load import load_packs
        from ..rules.packs.selection import select_rules

        rule_set = load_packs(self.rules)
        return select_rules(rule_set, self.select, self.ignore) if self.select or self.ignore else rule_set


def selected_rules_options(*, required: bool = True) -> Callable[[F], F]:
    """Return the options `--rules`, `--select` and `--ignore`: the RuleSelection `selection`."""
    options = (rules_option(required=required), selection_options())
    return grouped_options("selection", RuleSelection, *options)


def out_option(metavar: str, help: str, default: Path | None = None) -> Callable[[F], F]:
    """Return the option `--out FOLDER`: the path `out`, required unless it has a default."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        default=default,
        required=default is None,
        show_default=True,
        metavar=metavar,
        help=help,
    )


def format_option(*formats: str) -> Callable[[F], F]:
    """Return the option `--format`: the str `format`, one of `formats`, of which the first is the default."""
    return click.option(
        "--format",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="The format of the results.",
    )


def token_option(help: str) -> Callable[[F], F]:
    """Return the option `--token`, or `TRACLINE_TOKEN` in the environment: the str `token`, or None."""
    return click.option("--token", envvar="TRACLINE_TOKEN", show_envvar=True, help=help)


def archive_option() -> Callable[[F], F]:
    """Return the option `--archive FOLDER` of a live process: the path `archive`."""
    return click.option(
        "--archive",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("tracline-archive"),
        show_default=True,
        metavar="FOLDER",
        help="The archive folder for judged events, which `tracline audit` reads.",
    )
