"""The spellings of operators in formulas: words, letters and signs."""

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
"""Every spelling of an operator or a constant."""

RESERVED = frozenset(word for word in SPELLINGS if word.isidentifier())
"""The reserved words and letters: they cannot name a proposition, operator, parameter or transition."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The form of the name of a proposition, operator, parameter or transition."""

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
"""The binary temporal operators."""

TEMPORAL = frozenset(word for word, op in SPELLINGS.items() if op in FUTURE | PAST)
"""The spellings of the temporal operators."""

CONNECTIVES = frozenset(word for word, op in SPELLINGS.items() if op in {Op.AND, Op.OR, Op.IMPLIES, Op.IFF})
"""The spellings of the binary Boolean operators."""

BINARY = CONNECTIVES | {word for word, op in SPELLINGS.items() if op in BINARY_TEMPORAL}
"""The spellings of all binary operators."""
