"""Reserved words that are used as names."""

from __future__ import annotations

from ...model.problem import Problem, Snippet


def reserved_word_problem(snippet: Snippet, word: str, start: int, end: int) -> Problem:
    """Return the problem of a reserved word that is used as a name."""
    hint = f"choose another name, such as `{word.lower()}_event`"
    return snippet.problem("TRL113", f"`{word}` is a reserved word", hint, start, end)
