"""How the operators of formulas are written: words, letters and signs."""

from __future__ import annotations

import re

from .formula import FUTURE, PAST, Op

SPELLINGS: dict[str, Op] = {
    **{op.value: op for op in Op if op is not Op.PROP},
    "!": Op.NOT,
    "&": Op.AND,
    "&&": Op.AND,
    "|": Op.OR,
    "||": Op.OR,
    "implies": Op.IMPLIES,
    "iff": Op.IFF,
    "X": Op.NEXT,
    "N": Op.WEAK_NEXT,
    "F": Op.EVENTUALLY,
    "G": Op.ALWAYS,
    "U": Op.UNTIL,
    "W": Op.WEAK_UNTIL,
    "R": Op.RELEASE,
    "M": Op.STRONG_RELEASE,
    "Y": Op.PREVIOUS,
    "Z": Op.WEAK_PREVIOUS,
    "O": Op.ONCE,
    "H": Op.HISTORICALLY,
    "S": Op.SINCE,
    "WS": Op.WEAK_SINCE,
}
"""Every way in which an operator or a constant is written."""

RESERVED = frozenset(word for word in SPELLINGS if word.isidentifier())
"""The words and letters of the language, which name no proposition, operator, parameter or transition."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name of a proposition, operator, parameter or transition."""

BINARY_TEMPORAL = frozenset(
    {
        Op.UNTIL,
        Op.WEAK_UNTIL,
        Op.RELEASE,
        Op.STRONG_RELEASE,
        Op.SINCE,
        Op.WEAK_SINCE,
    }
)
"""The temporal operators that stand between two operands."""

TEMPORAL = frozenset(word for word, op in SPELLINGS.items() if op in FUTURE | PAST)
"""The spellings of the temporal operators."""

CONNECTIVES = frozenset(word for word, op in SPELLINGS.items() if op in {Op.AND, Op.OR, Op.IMPLIES, Op.IFF})
"""The spellings of what joins two formulas without speaking of time."""

BINARY = CONNECTIVES | {word for word, op in SPELLINGS.items() if op in BINARY_TEMPORAL}
"""The spellings of everything that stands between two operands."""
