"""Options of the commands that read a source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..batch.prepare.options import AuditOptions
    from ..schemas.chat.reading import ChatReading, MessagesPath

F = TypeVar("F", bound=Callable[..., Any])


GivenSources = str | Sequence[str]
"""One or several sources as arguments."""

_CHAT_KEY = "tracline.chat"


def sources_argument(name: str, metavar: str) -> Callable[[F], F]:
    """Return an argument of one or several sources: a tuple of str."""
    return click.argument(name, metavar=f"{metavar}...", nargs=-1, required=True)


def timezone_option() -> Callable[[F], F]:
    """Return the option `--timezone ZONE`: the str `timezone`, a name for `zone_of`."""
    return click.option(
        "--timezone",
        default="UTC",
        show_default=True,
        metavar="ZONE",
        help="The IANA time zone of times without an offset in chat logs.",
    )


def chat_options() -> Callable[[F], F]:
    """Return `--messages-at`, `--agent` and `--agent-by-model`, which `chat_reading` and audits read."""

    def remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        ctx.meta.setdefault(_CHAT_KEY, {})[param.name] = value

    def decorate(function: F) -> F:
        options = (
            click.option(
                "--messages-at",
                type=_MessagesPath(),
                metavar="PATH",
                expose_value=False,
                callback=remember,
                help="Where chat logs have their messages, as in `runs[].trajectory.messages`.",
            ),
            click.option(
                "--agent",
                metavar="NAME",
                expose_value=False,
                callback=remember,
                help="The agent of conversations in chat logs that name none.",
            ),
            click.option(
                "--agent-by-model",
                is_flag=True,
                expose_value=False,
                callback=remember,
                help="Give conversations in chat logs that name no agent their model as agent.",
            ),
        )
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class _MessagesPath(click.ParamType):
    """A path to messages as an argument."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> MessagesPath:
        """Read the path."""
        from ..schemas.chat.reading import messages_path

        path = messages_path(str(value))
        if path is None:
            self.fail(f"{value!r} is not a path: use one such as runs[].trajectory.messages", param, ctx)
        return path


def chat_reading() -> ChatReading:
    """Return the options for chat logs of the running command."""
    from ..schemas.chat.reading import ChatReading

    given = click.get_current_context().meta.get(_CHAT_KEY, {})
    if given.get("agent") and given.get("agent_by_model"):
        raise click.UsageError("--agent and --agent-by-model exclude each other.")
    return ChatReading(**{name: value for name, value in given.items() if value})


def audit_options(timezone: str = "UTC", **more: Any) -> AuditOptions:
    """Return the options of an audit: those given, those for chat logs, and the settings of sessions.

    Raises SourceError (TRL405) for an unknown time zone, and CommandError for invalid settings.
    """
    from ..batch.prepare.options import AuditOptions
    from ..batch.prepare.timezone import zone_of
    from .settings import session_settings

    sessions = session_settings()
    return AuditOptions(
        zone=zone_of(timezone),
        idle_s=sessions.idle_s,
        scope=sessions.scope,
        chat=chat_reading(),
        **more,
    )


def allow_rejected_option() -> Callable[[F], F]:
    """Return the option `--allow-rejected N`: the int `allow_rejected`."""
    return click.option(
        "--allow-rejected",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help="Accept up to N unreadable files, rows, messages or spans; exit 2 if there are more.",
    )


def allow_empty_option() -> Callable[[F], F]:
    """Return the option `--allow-empty`: the bool `allow_empty`."""
    return click.option(
        "--allow-empty", is_flag=True, help="Accept spans without a single event; otherwise exit 2."
    )


def named(source: GivenSources) -> str:
    """Return the sources as the place of an error."""
    return source if isinstance(source, str) else ", ".join(source)
