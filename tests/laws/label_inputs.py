"""Events, predicates and slice keys for the laws of labels: every kind, capture and JSON, broken too."""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl
from hypothesis import strategies as st
from tracline.rules.model.predicate import And, Leaf, Literal, Not, Or, Path
from tracline.rules.model.predicate import Test as Ask
from tracline.rules.model.rule import SliceKey
from tracline.schemas.frames.events import EVENT_SCHEMA

from .label_oracle import Event
from .quick_draws import quickly

KEYS = ("a", "b", "it's", 'q"', "é", "0", "x y", "$")
WORDS = (
    "",
    "yes",
    "no",
    "150",
    "1e2",
    "-0",
    "null",
    "true",
    "[1]",
    "{}",
    '{"a":1}',
    "é",
    "😀",
    "a.b",
    " 7",
    "01",
)

LARGE = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 2**11, 10**30, 2**127]
numerals = st.one_of(
    st.sampled_from([str(sign * number) for number in LARGE for sign in (1, -1)]),
    st.integers(-(10**25), 10**25).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(repr),
    st.builds("{}.{}".format, st.integers(-(10**20), 10**20), st.integers(0, 10**20)),
    st.builds("{}.{}e{}".format, st.integers(-99, 99), st.integers(0, 10**9), st.integers(-330, 330)),
)
"""Numbers of JSON, most of them with more digits than a double has."""
numbers = st.one_of(
    numerals,
    st.integers(-200, 200).map(str),
    st.sampled_from(
        [2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, -(2**63), -(2**63) - 1]
    ).map(str),
    st.builds("{}.{}".format, st.integers(-999, 999), st.integers(0, 9999)),
    st.builds("{}e{}".format, st.integers(-999, 999), st.integers(-20, 20)),
    st.sampled_from(["-0", "0.0", "1.50", "1e2", "100.0", "1e400", "01", "+1", "1.", ".5", "NaN"]),
)
strings = st.one_of(
    st.sampled_from(WORDS).map(json.dumps),
    st.text(max_size=5).map(json.dumps),
    numbers.map(json.dumps),
    st.sampled_from(['"\\ud83d"', '"a\nb"', '"\\u0000"', '"\\u00e9"', '"unclosed']),
)
scalars = st.one_of(numbers, strings, st.sampled_from(["true", "false", "null"]))


def documents(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """JSON texts one level around others; keys may stand twice."""
    members = st.lists(st.tuples(st.sampled_from(KEYS), inner), max_size=3)
    objects = members.map(lambda pairs: "{" + ", ".join(f"{json.dumps(k)}: {v}" for k, v in pairs) + "}")
    return st.one_of(objects, st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"))


texts = st.one_of(st.sampled_from(WORDS), st.text(max_size=6), numbers)
jsons = st.one_of(
    documents(st.recursive(scalars, documents, max_leaves=4)),
    st.fixed_dictionaries({"a": scalars}).map(lambda found: f'{{"a":{found["a"]}}}'),
    scalars,
    texts,
    st.sampled_from(
        ["", "{", '{"a":1', '{"a":1}}', "{'a':1}", '{"a":1,}', '{"a":' + "[" * 200 + "]" * 200 + "}"]
    ),
)
maybe_text, maybe_json = st.none() | texts, st.none() | jsons
events = quickly(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["user", "assistant", "tool_call", "tool_result", "unknown"]),
            "content": st.sampled_from(["captured", "captured", "absent", "truncated", "redacted"]),
            "nested": st.booleans(),
            "text": maybe_text,
            "tool": maybe_text,
            "args": maybe_json,
            "result": maybe_json,
            "error": maybe_text,
            "attributes": st.none() | st.dictionaries(st.sampled_from(["k", "a b"]), texts, max_size=2),
        }
    )
)
steps = st.lists(st.sampled_from(KEYS) | st.integers(0, 2), min_size=1, max_size=3).map(tuple)
json_paths = st.builds(Path, st.sampled_from(["args", "result"]), steps | st.just(("a",)))
paths = st.one_of(
    json_paths,
    st.sampled_from([Path("text"), Path("tool"), Path("error"), Path("args"), Path("result")]),
    st.sampled_from(["k", "a b", "none"]).map(lambda key: Path("attributes", (key,))),
)
literals = st.one_of(
    st.sampled_from(WORDS),
    st.booleans(),
    st.integers(-200, 200),
    st.sampled_from(
        [100, 150, *range(2**53 - 1, 2**53 + 3), -(2**53), 2**63 - 1, 1 - 2**63, 1e30, 0.1 + 0.2, 1.5, -0.0]
    ),
    numbers.filter(lambda text: re.fullmatch(r"-?[0-9.]+", text) is not None).map(str),
)
ORDERED = [Ask.EQ, Ask.NE, Ask.LT, Ask.LE, Ask.GT, Ask.GE]
PATTERNS = ["yes|no", "^1", "[0-9]$", "(?i)YES", "[a-z]", "^$", "é", r"^\[", "a.b"]
kind_names = st.sampled_from(["user", "assistant", "tool_call", "tool_result", "unknown"])
kind_leaves = st.one_of(
    st.builds(
        lambda test, literal: Leaf(Path("kind"), test, (literal,)),
        st.sampled_from([Ask.EQ, Ask.NE]),
        kind_names,
    ),
    st.lists(kind_names, min_size=1, max_size=3).map(
        lambda operands: Leaf(Path("kind"), Ask.IN, tuple(operands))
    ),
)
leaf_questions = st.one_of(
    kind_leaves,
    st.just(Leaf(Path("nested"), Ask.IS_TRUE)),
    st.builds(
        lambda path, test, literal: Leaf(path, test, (literal,)), paths, st.sampled_from(ORDERED), literals
    ),
    st.builds(
        lambda path, operands: Leaf(path, Ask.IN, tuple(operands)),
        paths,
        st.lists(literals, min_size=1, max_size=4),
    ),
    st.builds(lambda path, literal: Leaf(path, Ask.MATCHES, (literal,)), paths, st.sampled_from(PATTERNS)),
    st.builds(
        lambda path, test, literal: Leaf(path, test, (literal,)),
        paths,
        st.sampled_from([Ask.CONTAINS, Ask.STARTS_WITH]),
        st.sampled_from(WORDS),
    ),
    st.builds(Leaf, paths, st.just(Ask.IS_NULL)),
    st.builds(
        lambda path, test, against: Leaf(path, test, against=against), paths, st.sampled_from(ORDERED), paths
    ),
)
predicates = quickly(
    st.recursive(
        leaf_questions | st.sampled_from([Literal(True), Literal(False)]),
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=2, max_size=3).map(lambda args: And(tuple(args))),
            st.lists(inner, min_size=2, max_size=3).map(lambda args: Or(tuple(args))),
        ),
        max_leaves=6,
    )
)
slice_paths = st.one_of(
    json_paths,
    st.sampled_from([Path("kind"), Path("nested"), Path("text"), Path("tool"), Path("args"), Path("result")]),
    st.just(Path("attributes", ("k",))),
)
slice_keys = quickly(
    st.builds(SliceKey, st.lists(slice_paths, min_size=1, max_size=3, unique=True).map(tuple), st.booleans())
)


def frame(rows: list[Event]) -> pl.DataFrame:
    """Return the events as an event frame."""
    schema: Any = EVENT_SCHEMA
    return pl.DataFrame([{name: row.get(name) for name in EVENT_SCHEMA} for row in rows], schema=schema)
