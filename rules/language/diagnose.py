"""Why a text is not in the grammar, and what to write instead.

The grammar only knows that it met something unexpected. `diagnose` looks at the text around that spot the
way a reader does and asks one question after the other; the first answer is the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model.formula import STEPPED, Op
from ..model.keywords import BINARY, CONNECTIVES, RESERVED, SPELLINGS, TEMPORAL
from ..model.problem import Problem, Snippet
from .foreign_syntax import SIGNS, keyword_for
from .scanner import Lexeme, scan
from .syntax import EXAMPLES

_TEST_WORDS = frozenset({"in", "matches", "contains", "starts", "with", "is", "null"})
_COMPARISONS = frozenset({"=", "==", "!=", "<", "<=", ">", ">=", "===", "=~", "≠", "≤", "≥"})
_OPENS = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class _ParseFailure:
    """Where the grammar stopped: the piece there, its neighbours, and the brackets open before it."""

    snippet: Snippet
    start: str
    lexemes: tuple[Lexeme, ...]
    index: int

    @property
    def here(self) -> Lexeme:
        """The piece that the grammar refused; the last one is the end of the text."""
        return self.lexemes[self.index]

    def neighbour(self, offset: int) -> Lexeme:
        """The piece so many places away, or an empty one outside the text."""
        at = self.index + offset
        return self.lexemes[at] if 0 <= at < len(self.lexemes) else Lexeme("end", "", 0, 0)

    @property
    def opened(self) -> tuple[int, ...]:
        """The indices of the brackets that are open before this piece, the innermost last."""
        opened: list[int] = []
        for i, lexeme in enumerate(self.lexemes[: self.index]):
            if lexeme.text in _OPENS:
                opened.append(i)
            elif lexeme.text in (")", "]") and opened:
                opened.pop()
        return tuple(opened)

    def problem(self, code: str, message: str, hint: str, lexeme: Lexeme | None = None) -> Problem:
        """A problem with a piece, by default the one here."""
        at = lexeme or self.here
        return self.snippet.problem(code, message, hint, at.start, max(at.end, at.start + 1))

    def expects_operand(self) -> bool:
        """Return whether what stands before asks for an operand to follow."""
        before = self.neighbour(-1)
        if before.kind == "word":
            return before.text in RESERVED - {"true", "false"} or self._is_test_word(before.text)
        return before.kind in ("end", "sign") and before.text not in (")", "]")

    def _is_test_word(self, word: str) -> bool:
        return self.start == "predicate" and word in _TEST_WORDS - {"null"}


def diagnose(snippet: Snippet, start: str, at: int | None) -> Problem:
    """The problem of a text that the grammar's `start` refused at offset `at` (None: at the end)."""
    lexemes = scan(snippet.text)
    index = (
        len(lexemes) - 1
        if at is None
        else next(i for i, p in enumerate(lexemes) if at < p.end or p.kind == "end")
    )
    failure = _ParseFailure(snippet, start, lexemes, index)
    for check in _CHECKS:
        problem = check(failure)
        if problem is not None:
            return problem
    return failure.problem("TRL109", f"{_quoted(failure.here)} cannot stand here", EXAMPLES[start])


def _unclosed(failure: _ParseFailure) -> Problem | None:
    """A string or regular expression without its end, or in the wrong quotes."""
    here = failure.here
    if here.kind == "open":
        if here.text[0] != '"':
            return failure.problem("TRL107", "curly quotes close no string", "write straight double quotes")
        return failure.problem(
            "TRL106", "this string is never closed", 'end it with `"`; write `\\"` inside it'
        )
    if here.kind == "quoted":
        inner = here.text.strip("'‘’`")
        return failure.problem("TRL107", "strings stand in double quotes", f'write `"{inner}"`')
    if here.text == "/" and failure.neighbour(-1).text == "matches":
        hint = "end it with `/`; write `\\/` for a slash inside it"
        whole = Lexeme("open", "", here.start, failure.lexemes[-1].end)
        return failure.problem("TRL106", "this regular expression is never closed", hint, whole)
    if here.kind == "regex":
        return failure.problem(
            "TRL109", "a regular expression follows `matches`", f"write `matches {here.text}`"
        )
    return None


def _non_ascii_name(failure: _ParseFailure) -> Problem | None:
    """A word with other letters than a to z."""
    if failure.here.kind != "word" or failure.here.text.isascii():
        return None
    hint = "write names with the letters a to z, digits and _"
    if failure.start in ("predicate", "path"):
        hint += f'; a key of JSON may stand in quotes, `["{failure.here.text}"]`'
    return failure.problem("TRL108", f"`{failure.here.text}` has letters that names do not have", hint)


def _reserved_in_head(failure: _ParseFailure) -> Problem | None:
    """A word of the language as an operator's name or parameter."""
    here = failure.here
    if failure.start == "head" and here.text in RESERVED:
        return reserved_word_problem(failure.snippet, here.text, here.start, here.end)
    return None


def _foreign_word(failure: _ParseFailure) -> Problem | None:
    """A word of another language, in other letters, or misspelt, here or just before."""
    words = RESERVED if failure.start == "formula" else {"and", "or", "not", "true", "false"} | _TEST_WORDS
    for lexeme in (failure.here, failure.neighbour(-1)):
        if lexeme.kind != "word" or lexeme.text in words or failure.start not in ("formula", "predicate"):
            continue
        if lexeme is failure.neighbour(-1) and failure.here.kind not in ("word", "string", "number", "regex"):
            continue
        instead = keyword_for(lexeme.text, words)
        if instead:
            message = f"`{lexeme.text}` is no word of the language"
            return failure.problem("TRL107", message, f"write `{instead}`", lexeme)
    return None


def _bounds(failure: _ParseFailure) -> Problem | None:
    """Step bounds in another shape, or on something that takes none."""
    if failure.start != "formula":
        return None
    here, before = failure.here, failure.neighbour(-1)
    opened = failure.opened
    inside = bool(opened) and failure.lexemes[opened[-1]].text == "["
    operator = failure.lexemes[opened[-1] - 1] if inside else before
    if not inside and here.text not in ("[", "[]", "{", "<", "<=", "^", "_"):
        return None
    if operator.text in TEMPORAL:
        one_number = SPELLINGS[operator.text] in STEPPED | {Op.AT_MOST}
        shape = f"{operator.text}[2]" if one_number else f"{operator.text}[0,3]"
        hint = f"write whole numbers from 0, such as `{shape}`; for no upper end, `next[2] eventually p`"
        return failure.problem("TRL110", f"the step bounds of `{operator.text}` are not written so", hint)
    if here.text == "[":
        hint = "write them after a temporal operator, such as `eventually[0,3] p`"
        return failure.problem("TRL112", f"step bounds after `{before.text}`, which takes none", hint)
    return None


def _mixed_languages(failure: _ParseFailure) -> Problem | None:
    """A question about an event inside a formula, or time inside a predicate."""
    here, before = failure.here, failure.neighbour(-1)
    if failure.start == "formula":
        asks = here.text in _COMPARISONS | _TEST_WORDS or here.kind in ("string", "regex") or here.text == "."
        if not asks or here.text == "=>":
            return None
        hint = 'name the question under `propositions:` (`asked: kind == "user"`) and use the name here'
        if here.text in ("=", "=="):
            hint += "; for `both or neither` write `<->`"
        return failure.problem("TRL114", "a formula speaks of propositions and asks no event itself", hint)
    if failure.start == "predicate":
        hint = "name this question as a proposition and put the operator into a rule's `formula:`"
        for lexeme in (here, before):
            arrow = lexeme.text in ("->", "<->", "implies", "iff")
            if lexeme.text in TEMPORAL or arrow:
                message = f"`{lexeme.text}` stands in formulas; a proposition asks about one event"
                hint = "write `not p or q`" if arrow else hint
                return failure.problem("TRL114", message, hint, lexeme)
    return None


def _foreign_symbol(failure: _ParseFailure) -> Problem | None:
    """A sign of another language."""
    here = failure.here
    instead = SIGNS.get(here.text, "")
    if here.text == "<>" and failure.start == "predicate":
        instead = "!="
    if not instead or (instead in ("next", "always", "eventually") and failure.start == "predicate"):
        return None
    return failure.problem("TRL107", f"`{here.text}` is no sign of the language", f"write `{instead}`")


def _list(failure: _ParseFailure) -> Problem | None:
    """The list of `in`."""
    here, before = failure.here, failure.neighbour(-1)
    if failure.start != "predicate":
        return None
    if before.text == "in" and here.text not in ("[", "[]"):
        return failure.problem(
            "TRL109", "`in` takes a list in square brackets", 'write `tool in ["search", "refund"]`'
        )
    opened = failure.opened
    if here.text == "[]" or (opened and failure.lexemes[opened[-1] - 1].text == "in"):
        if here.text in ("]", "[]"):
            return failure.problem(
                "TRL102", "a value is missing in this list", 'write `["search", "refund"]`'
            )
        if here.kind in ("string", "number", "word") and before.kind in ("string", "number", "word"):
            return failure.problem(
                "TRL103", "a comma is missing between two values", "write `,` between them"
            )
    return None


def _condition(failure: _ParseFailure) -> Problem | None:
    """A question whose parts stand in another order or form."""
    here, before = failure.here, failure.neighbour(-1)
    if failure.start != "predicate":
        return None
    if before.kind == "regex":
        hint = "write `\\/` for a slash inside a regular expression"
        return failure.problem("TRL109", f"{_quoted(here)} cannot follow a regular expression", hint)
    if before.text == "is" or (before.text == "not" and failure.neighbour(-2).text == "is"):
        return failure.problem(
            "TRL109", "`is` asks only for null", "write `is null`, `is not null`, `==` or `!=`"
        )
    if here.kind in ("string", "number") and (
        before.kind == "end" or before.text in ("and", "or", "not", "(", "&&", "||")
    ):
        return failure.problem("TRL109", "a question begins with its field", 'write `kind == "user"`')
    if before.text == "starts":
        return failure.problem("TRL109", "`starts` needs `with`", 'write `starts with "..."`')
    if before.text == "not" and here.text in _TEST_WORDS - {"in", "null"}:
        hint = f"write `not` before the field: `not text {here.text} ...`"
        return failure.problem("TRL109", f"`not {here.text}` is not written so", hint, before)
    if here.text in _COMPARISONS and failure.neighbour(-2).text in _COMPARISONS:
        hint = "write both with `and`: `args.n > 1 and args.n < 9`"
        return failure.problem("TRL109", "one comparison follows another", hint)
    if here.text == "(" and before.kind == "word" and before.text not in ("and", "or", "not"):
        hint = "write a comparison; a pattern such as /(?i)yes/ ignores case"
        return failure.problem("TRL109", f"there is no function `{before.text}`", hint, before)
    if here.kind in ("string", "number") and before.kind == "word":
        return failure.problem("TRL103", "a comparison is missing", f"write `==` before `{here.text}`")
    return None


def _path_step(failure: _ParseFailure) -> Problem | None:
    """A step into JSON in another form, or a hyphen in a name."""
    here, before = failure.here, failure.neighbour(-1)
    if here.text == "-" and before.kind == "word" and failure.neighbour(1).kind == "word":
        joined = f"{before.text}-{failure.neighbour(1).text}"
        if failure.start == "formula" or failure.start == "head":
            return failure.problem("TRL108", "a name has no hyphen", f"write `{joined.replace('-', '_')}`")
        return failure.problem("TRL108", "a key with a hyphen stands in quotes", f'write `["{joined}"]`')
    if failure.start not in ("predicate", "path"):
        return None
    if before.text == "." and here.kind == "number":
        return failure.problem("TRL109", "a place in an array stands in brackets", f"write `[{here.text}]`")
    opened = failure.opened
    inside = (
        opened and failure.lexemes[opened[-1]].text == "[" and failure.lexemes[opened[-1] - 1].text != "in"
    )
    if inside or before.text == "." or here.text in (".", "..", "[", "[]"):
        hint = 'write `.name`, `["odd key"]`, or `[0]` for the first of an array'
        return failure.problem("TRL109", "this is no step into JSON", hint)
    return None


def _brackets(failure: _ParseFailure) -> Problem | None:
    """Brackets without a partner."""
    here, opened = failure.here, failure.opened
    if here.text in (")", "]"):
        if not opened:
            return failure.problem(
                "TRL105", f"`{here.text}` closes nothing", "leave it out, or open it before"
            )
        opening = failure.lexemes[opened[-1]]
        if _OPENS[opening.text] != here.text:
            hint = f"write `{_OPENS[opening.text]}` before `{here.text}`"
            return failure.problem("TRL104", f"this `{opening.text}` is never closed", hint, opening)
    if here.kind == "end" and opened and not failure.expects_operand():
        opening = failure.lexemes[opened[-1]]
        hint = f"write `{_OPENS[opening.text]}` where it ends"
        return failure.problem("TRL104", f"this `{opening.text}` is never closed", hint, opening)
    return None


def _reserved_as_name(failure: _ParseFailure) -> Problem | None:
    """A word of the language where a name is meant."""
    here, after = failure.here, failure.neighbour(1)
    if failure.start != "formula" or here.text not in BINARY or not failure.expects_operand():
        return None
    name_like = after.kind == "end" or after.text in CONNECTIVES | BINARY | {")", ","}
    return reserved_word_problem(failure.snippet, here.text, here.start, here.end) if name_like else None


def _missing_operand(failure: _ParseFailure) -> Problem | None:
    """An operator without what it needs before or after it."""
    here, before = failure.here, failure.neighbour(-1)
    noun = {"formula": "formula", "predicate": "question", "head": "parameter"}.get(failure.start, "step")
    if not failure.expects_operand() or here.kind not in ("end", "sign", "word"):
        return None
    if here.kind == "sign" and here.text not in CONNECTIVES | {
        ")",
        "]",
        ",",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
    }:
        return None
    if before.text == "(" and here.text == ")":
        return failure.problem("TRL102", "nothing stands in these brackets", f"write a {noun} between them")
    if before.kind != "end" and before.text != "(":
        hint = f"write a {noun} after `{before.text}`"
        if before.text in TEMPORAL:
            hint += f"; if `{before.text}` is meant as a name, choose another: it is a word of the language"
        return failure.problem("TRL102", f"`{before.text}` has nothing after it", hint, before)
    return failure.problem("TRL102", f"{_quoted(here)} has nothing before it", f"write a {noun} before it")


def _missing_operator(failure: _ParseFailure) -> Problem | None:
    """Two operands side by side."""
    here, before = failure.here, failure.neighbour(-1)
    if failure.expects_operand() or not (
        here.kind in ("word", "string", "number") or here.text in ("(", "!")
    ):
        return None
    if failure.start == "head":
        return failure.problem("TRL103", "a comma is missing between two parameters", EXAMPLES["head"])
    hint = "write `and`, `or` or `->` between them; a pack's operator is called as `name(p, q)`"
    if failure.start == "predicate":
        hint = "write `and` or `or` between them"
    return failure.problem("TRL103", f"nothing joins {_quoted(before)} and {_quoted(here)}", hint)


def _number(failure: _ParseFailure) -> Problem | None:
    """A number where a formula is wanted, or a comma between formulas."""
    here, before = failure.here, failure.neighbour(-1)
    if failure.start != "formula":
        return None
    if here.kind == "number":
        hint = "write `true` or `false`; numbers stand only in step bounds, `eventually[0,3] p`"
        return failure.problem("TRL109", "a number is no formula", hint)
    if here.text == ",":
        hint = "write `and` or `or`; commas stand in step bounds and in calls of a pack's operators"
        return failure.problem("TRL109", f"a comma joins no formulas after {_quoted(before)}", hint)
    return None


def _stray(failure: _ParseFailure) -> Problem | None:
    """A character that the language never uses, or a name in other letters than a to z."""
    here = failure.here
    if here.kind == "sign" and here.text not in CONNECTIVES | {"(", ")", "[", "]", ",", "."}:
        return failure.problem(
            "TRL108", f"`{here.text}` means nothing here", f"leave it out; {EXAMPLES[failure.start]}"
        )
    return None


def reserved_word_problem(snippet: Snippet, word: str, start: int, end: int) -> Problem:
    """The problem of a word of the language that stands as a name."""
    hint = f"choose another name, such as `{word.lower()}_event`"
    return snippet.problem(
        "TRL113", f"`{word}` is a word of the language and names nothing", hint, start, end
    )


def _quoted(lexeme: Lexeme) -> str:
    return f"`{lexeme.text}`" if lexeme.text else "the end of the text"


_CHECKS: tuple[Callable[[_ParseFailure], Problem | None], ...] = (
    _unclosed,
    _non_ascii_name,
    _reserved_in_head,
    _bounds,
    _list,
    _foreign_word,
    _mixed_languages,
    _foreign_symbol,
    _condition,
    _path_step,
    _brackets,
    _reserved_as_name,
    _missing_operand,
    _missing_operator,
    _number,
    _stray,
)
"""What is asked, in this order: the more telling first."""
