"""The grammar's LALR parse table, generated ahead of time.

Building the parser from the grammar takes longer than reading a pack, so `make generated` writes the table to
`grammar.json` and a test compares it. The table records the grammar's digest and Lark's version; the loader
ignores a table that does not match them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

WIDTH_MAX = 2**32 - 1
"""The length of unbounded terminals in the table; Lark's own value differs between Python versions."""

TableState = Mapping[int, tuple[int, Any]]
"""By symbol: 0 and the next state, or 1 and the rule to reduce by."""


def make_parser(grammar: str, starts: Sequence[str]) -> Any:
    """Build the parser of a grammar with those start symbols from its text (about 60 ms)."""
    return Lark(
        grammar, parser="lalr", start=list(starts), propagate_positions=True, maybe_placeholders=False
    )


def load_parser(table: str, grammar: str, starts: Sequence[str]) -> Any:
    """Load the parser from its table, or build it if the table is of another grammar or version of Lark."""
    stored: Any = json.loads(table)
    if stored["made_of"] != _provenance(grammar, starts):
        return make_parser(grammar, starts)
    data = stored["data"]
    data["parser"]["parser"] |= {
        "tokens": _by_number(stored["symbols"]),
        "states": {
            state: {symbol: (act, {"@": to} if act else to) for symbol, act, to in row}
            for state, row in _by_number(stored["states"]).items()
        },
    }
    return cast(Any, Lark).load({"data": data, "memo": _by_number(stored["memo"])})


def _by_number(entries: list[Any]) -> dict[int, Any]:
    return dict(enumerate(entries))


def table_text(grammar: str, starts: Sequence[str]) -> str:
    """Return the content of `grammar.json`, the same on every machine with this version of Lark."""
    data, memo = make_parser(grammar, starts).memo_serialize([TerminalDef, Rule])
    for entry in memo.values():
        if "_width" in entry.get("pattern", {}):
            entry["pattern"]["_width"] = [min(width, WIDTH_MAX) for width in entry["pattern"]["_width"]]
    parser = data["parser"]["parser"]
    tokens, states = parser.pop("tokens"), parser.pop("states")
    number = {state: i for i, state in enumerate(_in_discovery_order(states, tokens, parser["start_states"]))}
    for ends in ("start_states", "end_states"):
        parser[ends] = {start: number[state] for start, state in parser[ends].items()}
    symbols = sorted(tokens.values())
    index = {token: symbols.index(name) for token, name in tokens.items()}
    rows = [
        sorted(
            [index[token], act, to["@"] if act else number[to]] for token, (act, to) in states[state].items()
        )
        for state in number
    ]
    entries = [memo[i] for i in range(len(memo))]
    made_of = _provenance(grammar, starts)
    return _to_json({"made_of": made_of, "data": data, "symbols": symbols, "memo": entries, "states": rows})


def _provenance(grammar: str, starts: Sequence[str]) -> dict[str, object]:
    digest = hashlib.sha256(grammar.encode()).hexdigest()
    return {"grammar": digest, "starts": list(starts), "lark": lark.__version__}


def _in_discovery_order(
    states: Mapping[int, TableState], tokens: Mapping[int, str], starts: Mapping[str, int]
) -> list[int]:
    """Return the states in breadth-first order from the start symbols; Lark numbers them at random."""
    found = [starts[name] for name in sorted(starts)]
    for state in found:
        row = sorted((tokens[token], to) for token, (act, to) in states[state].items() if not act)
        found += [to for _, to in row if to not in found]
    return found


def _to_json(table: Mapping[str, object]) -> str:
    """Return the table as JSON, each entry of a list on a line of its own."""
    return "{\n" + ",\n".join(f"{_line(key)}:{_lines(value)}" for key, value in table.items()) + "\n}\n"


def _lines(value: object) -> str:
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(_line, cast(list[object], value))) + "\n]"
    return _line(value)


def _line(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
