"""The grammar's parse table: current, deterministic, and used only for its grammar."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from lark import Lark
from lark.exceptions import UnexpectedInput
from tracline.rules.language.lalr_table import load_parser, make_parser
from tracline.rules.language.syntax import EXAMPLES, GRAMMAR_FILE, TABLE_FILE, table

GRAMMAR = GRAMMAR_FILE.read_text("utf-8")
TABLE = TABLE_FILE.read_text("utf-8")
STARTS = tuple(EXAMPLES)
TEXTS = [
    ("formula", "always (a -> eventually[0,3] b and not c) <-> happened_before(p, q or true)"),
    ("formula", "G(p -> q U r) || at_most[2] x"),
    ("predicate", 'kind == "user" and not (nested or tool in ["a", "b"]) and text matches /x\\/y/'),
    ("predicate", "args.items[0].price >= -1.5e3 or result is not null"),
    ("path", 'attributes["tenant"]'),
    ("head", "happened_before(p, q)"),
    ("formula", "always (a ->"),
    ("formula", 'kind == "user"'),
    ("predicate", "always p"),
    ("path", "args..x"),
]


def answer(parser: Any, start: str, text: str) -> tuple[object, ...]:
    """Return the tree with every location, or the offset and kind of the parser's error."""
    try:
        tree = parser.parse(text, start=start)
    except UnexpectedInput as refusal:
        return type(refusal), refusal.pos_in_stream, set(getattr(refusal, "accepts", None) or ())
    spans = [(node.data, node.meta.start_pos, node.meta.end_pos) for node in tree.iter_subtrees()]
    tokens = [(token.type, str(token), token.start_pos) for token in tree.scan_values(lambda _: True)]
    return tree, spans, tokens


@pytest.mark.slow
def test_the_table_is_current() -> None:
    """The shipped table is that of the shipped grammar."""
    assert table() == TABLE, "run make generated"


@pytest.mark.slow
def test_the_table_is_deterministic() -> None:
    """The order of sets, which differs between runs, does not affect the table."""
    code = "import sys; from tracline.rules.language.syntax import table; sys.stdout.write(table())"
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        assert done.stdout == TABLE


@pytest.mark.parametrize(("start", "text"), TEXTS)
def test_a_table_parses_like_its_grammar(start: str, text: str) -> None:
    """The parser from the table gives the trees, locations and errors of the parser from the grammar."""
    made, loaded = parsers()
    assert answer(loaded, start, text) == answer(made, start, text)


@cache
def parsers() -> tuple[Lark, Lark]:
    """Return the parser from the grammar and the parser from the table."""
    return make_parser(GRAMMAR, STARTS), load_parser(TABLE, GRAMMAR, STARTS)


def test_a_table_of_another_grammar_is_not_used() -> None:
    """A changed grammar is used instead of its table."""
    changed = GRAMMAR.replace("head: NAME", 'head: "define" NAME')
    parser = load_parser(TABLE, changed, STARTS)
    assert parser.parse("define f(p)", start="head").data == "head"


def test_a_table_of_another_lark_is_not_used() -> None:
    """A table of another version of Lark is not used."""
    stored = json.loads(TABLE)
    changed = {"made_of": {**stored["made_of"], "lark": "1.3.0"}}
    parser = load_parser(json.dumps(changed), GRAMMAR, STARTS)
    assert parser.parse("f(p)", start="head").data == "head"
