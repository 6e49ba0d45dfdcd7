"""The error for a package that is not installed."""

from __future__ import annotations

from .error import CommandError, coded_error, command_error


def package_error(error: ModuleNotFoundError, where: str) -> CommandError | None:
    """Return the error for a missing package of a live process; None for a module of tracline."""
    if (error.name or "").startswith("tracline"):
        return None
    hint = "install tracline with its extra `stream`: pip install '.[stream]' in a clone"
    return command_error("TRL620", where, f"the package {error.name} is not installed", hint)


def live_error(error: Exception, where: str) -> CommandError | None:
    """Return the error for one of the live side or for a package that it lacks; None for other exceptions."""
    from ..stream.error import StreamError

    if isinstance(error, StreamError):
        return coded_error(error.code, where, str(error), error.hint)
    return package_error(error, where) if isinstance(error, ModuleNotFoundError) else None
