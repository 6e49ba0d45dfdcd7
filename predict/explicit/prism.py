"""Chains as PRISM modules of one variable."""

from __future__ import annotations

from functools import lru_cache

from lark import Lark, Token, Tree, UnexpectedInput

from ..error import PredictError
from .chain import ExplicitChain, Transition, explicit_chain, state_number

_GRAMMAR = r"""
start: "dtmc" "module" NAME variable command* "endmodule" label*
variable: NAME ":" "[" NUMBER ".." NUMBER "]" "init" NUMBER ";"
command: "[" "]" _state "->" update ("+" update)* ";"
update: NUMBER ["/" NUMBER] ":" "(" NAME "'" "=" NUMBER ")"
label: "label" STRING "=" (_state ("|" _state)* | "false") ";"
_state: NAME "=" NUMBER | "(" _state ")"
NAME: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /\d+(\.\d+)?([eE][+-]?\d+)?/
STRING: /"[A-Za-z_][A-Za-z0-9_]*"/
%ignore /\s+/
%ignore /\/\/[^\n]*/
"""
_HINT = "write one module with one variable: `s : [0..1] init 0;`, `[] s=0 -> 0.5 : (s'=1) + 0.5 : (s'=0);`"


def read_prism(text: str, where: str) -> ExplicitChain:
    """Read the flat subset of PRISM: one module, one variable, one command a state, then labels.

    Probabilities are decimals or rationals. Raises PredictError: TRL807 for anything else, with its line, and
    as `explicit_chain` does.
    """
    try:
        tree = _parser().parse(text)  # pyright: ignore[reportUnknownMemberType]
    except UnexpectedInput as error:
        line = error.line if error.line and error.line > 0 else text.count("\n") + 1
        raise PredictError(
            "TRL807", f"{where}:{line}", "not in the subset of PRISM that tracline reads", _HINT
        ) from None
    return _Reader(where, tree).chain()


def to_prism(chain: ExplicitChain) -> str:
    """Return a chain without intervals as a PRISM module with its labels; each number keeps every bit."""
    assert not chain.has_intervals
    lines = ["dtmc", "", "module chain", f"  s : [0..{chain.states - 1}] init {chain.initial};"]
    probabilities, targets = chain.low.tolist(), chain.targets.tolist()
    for state in range(chain.states):
        entries = range(chain.starts[state], chain.starts[state + 1])
        updates = " + ".join(f"{probabilities[at]!r} : (s'={targets[at]})" for at in entries)
        lines.append(f"  [] s={state} -> {updates};")
    lines += ["endmodule", ""]
    for name, states in sorted(chain.labels.items()):
        condition = " | ".join(f"(s={state})" for state in states.tolist()) or "false"
        lines.append(f'label "{name}" = {condition};')
    return "\n".join([*lines, ""])


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr")


class _Reader:
    """A reader of a parsed module; `where` names the file in errors."""

    def __init__(self, where: str, tree: Tree[Token]) -> None:
        self._where = where
        self._parts = [part for part in tree.children if isinstance(part, Tree)]
        self._variable = ""

    def chain(self) -> ExplicitChain:
        """Return the chain."""
        variable, *parts = self._parts
        word, first, last, initial = _tokens(variable)
        self._variable = word.value
        if self._integer(first) != 0:
            raise self._error(first, "the states do not begin with 0")
        states = self._integer(last) + 1
        self._check_state(initial, states)
        transitions: list[Transition] = []
        labels: dict[str, list[int]] = {}
        for part in parts:
            if part.data == "command":
                transitions += self._command(part)
            else:
                label, *names = _tokens(part)
                name = label.value.strip('"')
                if name in labels:
                    raise self._error(label, f"a second label `{name}`")
                labels[name] = [self._state(*pair, states) for pair in _pairs(names)]
        return explicit_chain(self._where, states, transitions, labels, self._integer(initial))

    def _command(self, command: Tree[Token]) -> list[Transition]:
        """Return the transitions of a command."""
        name, number = _tokens(command)
        source = self._state(name, number)
        found: list[Transition] = []
        for update in command.find_data("update"):
            *share, name, number = _tokens(update)
            target = self._state(name, number)
            probability = self._probability(*share)
            found.append(Transition(number.line or 0, source, target, probability, probability))
        return found

    def _probability(self, above: Token, below: Token | None = None) -> float:
        """Return a decimal or a rational as a number."""
        if below is not None and float(below) == 0:
            raise self._error(below, "a division by 0")
        return float(above) if below is None else float(above) / float(below)

    def _state(self, name: Token, number: Token, states: int | None = None) -> int:
        """Return the number of a state; with `states`, it must be one of them."""
        if name.value != self._variable:
            raise self._error(name, f"`{name}` is not the variable `{self._variable}`")
        if states is not None:
            self._check_state(number, states)
        return self._integer(number)

    def _check_state(self, number: Token, states: int) -> None:
        if self._integer(number) >= states:
            raise self._error(number, f"there is no state {number}")

    def _integer(self, token: Token) -> int:
        number = state_number(token.value)
        if number is None:
            raise self._error(token, f"`{token}` is not a whole number")
        return number

    def _error(self, token: Token, what: str) -> PredictError:
        return PredictError("TRL807", f"{self._where}:{token.line}", what, _HINT)


def _tokens(tree: Tree[Token]) -> list[Token]:
    """Return the tokens of a part, without those of its own parts and without absent ones."""
    return [part for part in tree.children if isinstance(part, Token)]


def _pairs(tokens: list[Token]) -> list[tuple[Token, Token]]:
    """Return tokens in pairs."""
    return list(zip(tokens[::2], tokens[1::2], strict=True))
