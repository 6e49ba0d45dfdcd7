"""The regular expressions that the engine rejects: invalid ones, and too large ones."""

from __future__ import annotations

from collections.abc import Iterator

from .problem import Problem

REGEX_CHARS_MAX = 4_096
"""Characters of one regular expression; the engine limits its compiled form to 10 MiB."""


def regex_problems(pattern: str) -> Iterator[Problem]:
    """Yield the reason why the engine would reject the regular expression.

    Polars and pydantic both use Rust's `regex` crate with its default limits, and the reader of packs has
    loaded pydantic already.
    """
    if len(pattern) > REGEX_CHARS_MAX:
        message = f"the regular expression has {len(pattern)} characters, more than {REGEX_CHARS_MAX}"
        yield Problem("TRL141", message, "split it into several questions joined by `or`")
        return
    # Commands that only parse formulas do not need pydantic, and start faster without it.
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        reason = str(error).rsplit("error: ", 1)[-1].strip()
        if "exceeds size limit" in reason:
            message = "the regular expression compiles to more than 10 MiB"
            yield Problem("TRL141", message, "repeat fewer times, or split it")
            return
        hint = "the syntax is that of Rust's regex crate: no look-around, no back-references"
        yield Problem("TRL140", f"this is no regular expression here: {reason}", hint)
