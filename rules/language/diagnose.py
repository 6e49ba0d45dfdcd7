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
from .foreign_syntax import SIGNS, meant
from .scanner import Piece, scan
from .syntax import EXAMPLES

_QUESTIONS = frozenset({"in", "matches", "contains", "starts", "with", "is", "null"})
_COMPARISONS = frozenset({"=", "==", "!=", "<", "<=", ">", ">=", "===", "=~", "≠", "≤", "≥"})
_OPENS = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class _Scene:
    """Where the grammar stopped: the piece there, its neighbours, and the brackets open before it."""

    snippet: Snippet
    start: str
    pieces: tuple[Piece, ...]
    index: int

    @property
    def here(self) -> Piece:
        """The piece that the grammar refused; the last one is the end of the text."""
        return self.pieces[self.index]

    def near(self, offset: int) -> Piece:
        """The piece so many places away, or an empty one outside the text."""
        at = self.index + offset
        return self.pieces[at] if 0 <= at < len(self.pieces) else Piece("end", "", 0, 0)

    @property
    def opened(self) -> tuple[int, ...]:
        """The indices of the brackets that are open before this piece, the innermost last."""
        opened: list[int] = []
        for i, piece in enumerate(self.pieces[: self.index]):
            if piece.text in _OPENS:
                opened.append(i)
            elif piece.text in (")", "]") and opened:
                opened.pop()
        return tuple(opened)

    def problem(self, code: str, message: str, hint: str, piece: Piece | None = None) -> Problem:
        """A problem with a piece, by default the one here."""
        at = piece or self.here
        return self.snippet.problem(code, message, hint, at.start, max(at.end, at.start + 1))

    def wants_operand(self) -> bool:
        """Return whether what stands before asks for an operand to follow."""
        before = self.near(-1)
        if before.kind == "word":
            return before.text in RESERVED - {"true", "false"} or self._asks(before.text)
        return before.kind in ("end", "sign") and before.text not in (")", "]")

    def _asks(self, word: str) -> bool:
        return self.start == "predicate" and word in _QUESTIONS - {"null"}


def diagnose(snippet: Snippet, start: str, at: int | None) -> Problem:
    """The problem of a text that the grammar's `start` refused at offset `at` (None: at the end)."""
    pieces = scan(snippet.text)
    index = (
        len(pieces) - 1
        if at is None
        else next(i for i, p in enumerate(pieces) if at < p.end or p.kind == "end")
    )
    scene = _Scene(snippet, start, pieces, index)
    for check in _CHECKS:
        problem = check(scene)
        if problem is not None:
            return problem
    return scene.problem("TRL109", f"{_named(scene.here)} cannot stand here", EXAMPLES[start])


def _unclosed(scene: _Scene) -> Problem | None:
    """A string or regular expression without its end, or in the wrong quotes."""
    here = scene.here
    if here.kind == "open":
        if here.text[0] != '"':
            return scene.problem("TRL107", "curly quotes close no string", "write straight double quotes")
        return scene.problem(
            "TRL106", "this string is never closed", 'end it with `"`; write `\\"` inside it'
        )
    if here.kind == "quoted":
        inner = here.text.strip("'‘’`")
        return scene.problem("TRL107", "strings stand in double quotes", f'write `"{inner}"`')
    if here.text == "/" and scene.near(-1).text == "matches":
        hint = "end it with `/`; write `\\/` for a slash inside it"
        whole = Piece("open", "", here.start, scene.pieces[-1].end)
        return scene.problem("TRL106", "this regular expression is never closed", hint, whole)
    if here.kind == "regex":
        return scene.problem(
            "TRL109", "a regular expression follows `matches`", f"write `matches {here.text}`"
        )
    return None


def _letters(scene: _Scene) -> Problem | None:
    """A word with other letters than a to z."""
    if scene.here.kind != "word" or scene.here.text.isascii():
        return None
    hint = "write names with the letters a to z, digits and _"
    if scene.start in ("predicate", "path"):
        hint += f'; a key of JSON may stand in quotes, `["{scene.here.text}"]`'
    return scene.problem("TRL108", f"`{scene.here.text}` has letters that names do not have", hint)


def _head(scene: _Scene) -> Problem | None:
    """A word of the language as an operator's name or parameter."""
    here = scene.here
    if scene.start == "head" and here.text in RESERVED:
        return reserved(scene.snippet, here.text, here.start, here.end)
    return None


def _foreign_word(scene: _Scene) -> Problem | None:
    """A word of another language, in other letters, or misspelt, here or just before."""
    words = RESERVED if scene.start == "formula" else {"and", "or", "not", "true", "false"} | _QUESTIONS
    for piece in (scene.here, scene.near(-1)):
        if piece.kind != "word" or piece.text in words or scene.start not in ("formula", "predicate"):
            continue
        if piece is scene.near(-1) and scene.here.kind not in ("word", "string", "number", "regex"):
            continue
        instead = meant(piece.text, words)
        if instead:
            message = f"`{piece.text}` is no word of the language"
            return scene.problem("TRL107", message, f"write `{instead}`", piece)
    return None


def _bounds(scene: _Scene) -> Problem | None:
    """Step bounds in another shape, or on something that takes none."""
    if scene.start != "formula":
        return None
    here, before = scene.here, scene.near(-1)
    opened = scene.opened
    inside = bool(opened) and scene.pieces[opened[-1]].text == "["
    operator = scene.pieces[opened[-1] - 1] if inside else before
    if not inside and here.text not in ("[", "[]", "{", "<", "<=", "^", "_"):
        return None
    if operator.text in TEMPORAL:
        one_number = SPELLINGS[operator.text] in STEPPED | {Op.AT_MOST}
        shape = f"{operator.text}[2]" if one_number else f"{operator.text}[0,3]"
        hint = f"write whole numbers from 0, such as `{shape}`; for no upper end, `next[2] eventually p`"
        return scene.problem("TRL110", f"the step bounds of `{operator.text}` are not written so", hint)
    if here.text == "[":
        hint = "write them after a temporal operator, such as `eventually[0,3] p`"
        return scene.problem("TRL112", f"step bounds after `{before.text}`, which takes none", hint)
    return None


def _other_kind(scene: _Scene) -> Problem | None:
    """A question about an event inside a formula, or time inside a predicate."""
    here, before = scene.here, scene.near(-1)
    if scene.start == "formula":
        asks = here.text in _COMPARISONS | _QUESTIONS or here.kind in ("string", "regex") or here.text == "."
        if not asks or here.text == "=>":
            return None
        hint = 'name the question under `propositions:` (`asked: kind == "user"`) and use the name here'
        if here.text in ("=", "=="):
            hint += "; for `both or neither` write `<->`"
        return scene.problem("TRL114", "a formula speaks of propositions and asks no event itself", hint)
    if scene.start == "predicate":
        hint = "name this question as a proposition and put the operator into a rule's `formula:`"
        for piece in (here, before):
            arrow = piece.text in ("->", "<->", "implies", "iff")
            if piece.text in TEMPORAL or arrow:
                message = f"`{piece.text}` stands in formulas; a proposition asks about one event"
                hint = "write `not p or q`" if arrow else hint
                return scene.problem("TRL114", message, hint, piece)
    return None


def _foreign_sign(scene: _Scene) -> Problem | None:
    """A sign of another language."""
    here = scene.here
    instead = SIGNS.get(here.text, "")
    if here.text == "<>" and scene.start == "predicate":
        instead = "!="
    if not instead or (instead in ("next", "always", "eventually") and scene.start == "predicate"):
        return None
    return scene.problem("TRL107", f"`{here.text}` is no sign of the language", f"write `{instead}`")


def _list(scene: _Scene) -> Problem | None:
    """The list of `in`."""
    here, before = scene.here, scene.near(-1)
    if scene.start != "predicate":
        return None
    if before.text == "in" and here.text not in ("[", "[]"):
        return scene.problem(
            "TRL109", "`in` takes a list in square brackets", 'write `tool in ["search", "refund"]`'
        )
    opened = scene.opened
    if here.text == "[]" or (opened and scene.pieces[opened[-1] - 1].text == "in"):
        if here.text in ("]", "[]"):
            return scene.problem("TRL102", "a value is missing in this list", 'write `["search", "refund"]`')
        if here.kind in ("string", "number", "word") and before.kind in ("string", "number", "word"):
            return scene.problem("TRL103", "a comma is missing between two values", "write `,` between them")
    return None


def _question(scene: _Scene) -> Problem | None:
    """A question whose parts stand in another order or form."""
    here, before = scene.here, scene.near(-1)
    if scene.start != "predicate":
        return None
    if before.kind == "regex":
        hint = "write `\\/` for a slash inside a regular expression"
        return scene.problem("TRL109", f"{_named(here)} cannot follow a regular expression", hint)
    if before.text == "is" or (before.text == "not" and scene.near(-2).text == "is"):
        return scene.problem(
            "TRL109", "`is` asks only for null", "write `is null`, `is not null`, `==` or `!=`"
        )
    if here.kind in ("string", "number") and (
        before.kind == "end" or before.text in ("and", "or", "not", "(", "&&", "||")
    ):
        return scene.problem("TRL109", "a question begins with its field", 'write `kind == "user"`')
    if before.text == "starts":
        return scene.problem("TRL109", "`starts` needs `with`", 'write `starts with "..."`')
    if before.text == "not" and here.text in _QUESTIONS - {"in", "null"}:
        hint = f"write `not` before the field: `not text {here.text} ...`"
        return scene.problem("TRL109", f"`not {here.text}` is not written so", hint, before)
    if here.text in _COMPARISONS and scene.near(-2).text in _COMPARISONS:
        hint = "write both with `and`: `args.n > 1 and args.n < 9`"
        return scene.problem("TRL109", "one comparison follows another", hint)
    if here.text == "(" and before.kind == "word" and before.text not in ("and", "or", "not"):
        hint = "write a comparison; a pattern such as /(?i)yes/ ignores case"
        return scene.problem("TRL109", f"there is no function `{before.text}`", hint, before)
    if here.kind in ("string", "number") and before.kind == "word":
        return scene.problem("TRL103", "a comparison is missing", f"write `==` before `{here.text}`")
    return None


def _step(scene: _Scene) -> Problem | None:
    """A step into JSON in another form, or a hyphen in a name."""
    here, before = scene.here, scene.near(-1)
    if here.text == "-" and before.kind == "word" and scene.near(1).kind == "word":
        joined = f"{before.text}-{scene.near(1).text}"
        if scene.start == "formula" or scene.start == "head":
            return scene.problem("TRL108", "a name has no hyphen", f"write `{joined.replace('-', '_')}`")
        return scene.problem("TRL108", "a key with a hyphen stands in quotes", f'write `["{joined}"]`')
    if scene.start not in ("predicate", "path"):
        return None
    if before.text == "." and here.kind == "number":
        return scene.problem("TRL109", "a place in an array stands in brackets", f"write `[{here.text}]`")
    opened = scene.opened
    inside = opened and scene.pieces[opened[-1]].text == "[" and scene.pieces[opened[-1] - 1].text != "in"
    if inside or before.text == "." or here.text in (".", "..", "[", "[]"):
        hint = 'write `.name`, `["odd key"]`, or `[0]` for the first of an array'
        return scene.problem("TRL109", "this is no step into JSON", hint)
    return None


def _brackets(scene: _Scene) -> Problem | None:
    """Brackets without a partner."""
    here, opened = scene.here, scene.opened
    if here.text in (")", "]"):
        if not opened:
            return scene.problem("TRL105", f"`{here.text}` closes nothing", "leave it out, or open it before")
        opening = scene.pieces[opened[-1]]
        if _OPENS[opening.text] != here.text:
            hint = f"write `{_OPENS[opening.text]}` before `{here.text}`"
            return scene.problem("TRL104", f"this `{opening.text}` is never closed", hint, opening)
    if here.kind == "end" and opened and not scene.wants_operand():
        opening = scene.pieces[opened[-1]]
        hint = f"write `{_OPENS[opening.text]}` where it ends"
        return scene.problem("TRL104", f"this `{opening.text}` is never closed", hint, opening)
    return None


def _as_name(scene: _Scene) -> Problem | None:
    """A word of the language where a name is meant."""
    here, after = scene.here, scene.near(1)
    if scene.start != "formula" or here.text not in BINARY or not scene.wants_operand():
        return None
    name_like = after.kind == "end" or after.text in CONNECTIVES | BINARY | {")", ","}
    return reserved(scene.snippet, here.text, here.start, here.end) if name_like else None


def _missing_operand(scene: _Scene) -> Problem | None:
    """An operator without what it needs before or after it."""
    here, before = scene.here, scene.near(-1)
    noun = {"formula": "formula", "predicate": "question", "head": "parameter"}.get(scene.start, "step")
    if not scene.wants_operand() or here.kind not in ("end", "sign", "word"):
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
        return scene.problem("TRL102", "nothing stands in these brackets", f"write a {noun} between them")
    if before.kind != "end" and before.text != "(":
        hint = f"write a {noun} after `{before.text}`"
        if before.text in TEMPORAL:
            hint += f"; if `{before.text}` is meant as a name, choose another: it is a word of the language"
        return scene.problem("TRL102", f"`{before.text}` has nothing after it", hint, before)
    return scene.problem("TRL102", f"{_named(here)} has nothing before it", f"write a {noun} before it")


def _missing_operator(scene: _Scene) -> Problem | None:
    """Two operands side by side."""
    here, before = scene.here, scene.near(-1)
    if scene.wants_operand() or not (here.kind in ("word", "string", "number") or here.text in ("(", "!")):
        return None
    if scene.start == "head":
        return scene.problem("TRL103", "a comma is missing between two parameters", EXAMPLES["head"])
    hint = "write `and`, `or` or `->` between them; a pack's operator is called as `name(p, q)`"
    if scene.start == "predicate":
        hint = "write `and` or `or` between them"
    return scene.problem("TRL103", f"nothing joins {_named(before)} and {_named(here)}", hint)


def _number(scene: _Scene) -> Problem | None:
    """A number where a formula is wanted, or a comma between formulas."""
    here, before = scene.here, scene.near(-1)
    if scene.start != "formula":
        return None
    if here.kind == "number":
        hint = "write `true` or `false`; numbers stand only in step bounds, `eventually[0,3] p`"
        return scene.problem("TRL109", "a number is no formula", hint)
    if here.text == ",":
        hint = "write `and` or `or`; commas stand in step bounds and in calls of a pack's operators"
        return scene.problem("TRL109", f"a comma joins no formulas after {_named(before)}", hint)
    return None


def _stray(scene: _Scene) -> Problem | None:
    """A character that the language never uses, or a name in other letters than a to z."""
    here = scene.here
    if here.kind == "sign" and here.text not in CONNECTIVES | {"(", ")", "[", "]", ",", "."}:
        return scene.problem(
            "TRL108", f"`{here.text}` means nothing here", f"leave it out; {EXAMPLES[scene.start]}"
        )
    return None


def reserved(snippet: Snippet, word: str, start: int, end: int) -> Problem:
    """The problem of a word of the language that stands as a name."""
    hint = f"choose another name, such as `{word.lower()}_event`"
    return snippet.problem(
        "TRL113", f"`{word}` is a word of the language and names nothing", hint, start, end
    )


def _named(piece: Piece) -> str:
    return f"`{piece.text}`" if piece.text else "the end of the text"


_CHECKS: tuple[Callable[[_Scene], Problem | None], ...] = (
    _unclosed,
    _letters,
    _head,
    _bounds,
    _list,
    _foreign_word,
    _other_kind,
    _foreign_sign,
    _question,
    _step,
    _brackets,
    _as_name,
    _missing_operand,
    _missing_operator,
    _number,
    _stray,
)
"""What is asked, in this order: the more telling first."""
