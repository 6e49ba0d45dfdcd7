"""The first design of a good engineer: rules over spans in plain Python, one span at a time.

The predicates of the shipped packs become closures with `re`, the same machines are stepped one event at a
time, and a session's state is a dictionary. It reads spans of the GenAI conventions whose trace comes in one
message, as `benchmarks/desk_spans.py` makes them. Spans that come late, calls that are sent again, witnesses,
other conventions and missing content are beyond it: on the benchmark's input it finds the same violations.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.formula import Formula, Op
from tracline.rules.model.machine import VERDICT_MASK, VIOLATED
from tracline.rules.model.predicate import (
    And,
    Contained,
    Leaf,
    Literal,
    Measured,
    Not,
    Or,
    Path,
    Predicate,
    Quantified,
    Test,
)
from tracline.rules.model.rule import Rule, RuleSet, SliceKey

Event = dict[str, Any]
State = dict[str, Any]
"""A session: `n` events; in `m` the state of each machine by rule and slice; in `seen`, for each call and
result, how often a tool's span and how often a message has held it."""

KEY, INPUT, OUTPUT = "gen_ai.conversation.id", "gen_ai.input.messages", "gen_ai.output.messages"
COMPARED = {Test.LT: operator.lt, Test.LE: operator.le, Test.GT: operator.gt, Test.GE: operator.ge}


def spans_of(message: bytes) -> Iterator[tuple[str, Event]]:
    """Yield a message's spans that have content, in the order of their ends, each with its session."""
    spans: list[Event] = []
    for resource in ExportTraceServiceRequest.FromString(message).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                spans.append({pair.key: pair.value.string_value for pair in span.attributes})
    session = next((span[KEY] for span in spans if KEY in span), None)
    agent = next((span.get("gen_ai.agent.name") for span in spans if KEY in span), None)
    if session is not None:
        for span in spans:
            if span.get("gen_ai.operation.name") in ("chat", "execute_tool"):
                yield session, {**span, "agent": agent}


def events_of(state: State, span: Event) -> Iterator[Event]:
    """Yield the events that a span adds to its session; `state` has the calls and results before it."""
    common = {"agent": span["agent"], "model": span.get("gen_ai.request.model"), "nested": False}
    if span["gen_ai.operation.name"] == "execute_tool":
        call = {"tool": span["gen_ai.tool.name"], "call_id": span["gen_ai.tool.call.id"]}
        call["args"] = _canonical(orjson.loads(span["gen_ai.tool.call.arguments"]))
        result = {"result": span.get("gen_ai.tool.call.result"), "error": span.get("error.type")}
        found = [{"kind": "tool_call", **call}, {"kind": "tool_result", **call, **result}]
    else:
        messages = orjson.loads(span.get(INPUT) or "[]")
        if state["n"]:
            answers = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
            messages = messages[answers[-1] + 1 :] if answers else messages
        messages += orjson.loads(span.get(OUTPUT) or "[]")
        found = [event for message in messages for event in _parts(message)]
    is_run = span["gen_ai.operation.name"] == "execute_tool"
    for event in found:
        if "call_id" in event:
            counts = state["seen"].setdefault(f"{event['kind']} {event['call_id']}", [0, 0])
            counts[is_run] += 1
            if counts[is_run] <= counts[not is_run]:
                continue
        yield common | event


def _parts(message: Mapping[str, Any]) -> Iterator[Event]:
    for part in message["parts"]:
        match part["type"]:
            case "text" if message["role"] in ("user", "assistant"):
                yield {"kind": message["role"], "text": part["content"]}
            case "tool_call":
                call = {"tool": part["name"], "call_id": part["id"]}
                yield {"kind": "tool_call", **call, "args": _canonical(part["arguments"])}
            case "tool_call_response":
                yield {"kind": "tool_result", "call_id": part["id"], "result": part.get("response")}


def _canonical(arguments: Any) -> str:
    return orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()


def new_state() -> State:
    """Return the state of a session that nothing has happened in."""
    return {"n": 0, "m": {}, "seen": {}}


class Rival:
    """The rules as closures and machines."""

    def __init__(self, rules: RuleSet) -> None:
        """Compile all rules."""
        self._predicates = {
            (rule.pack, name): closure(predicate)
            for rule in rules.rules
            for name, predicate in rule.propositions.items()
        }
        self._rules = [
            (rule, compile_rule(rule), _condition(rule, rule.steps), _slicer(rule.for_each))
            for rule in rules.rules
        ]

    def judge(self, state: State, span: Event) -> list[dict[str, Any]]:
        """Step all rules by the events of a span; return the violations."""
        return [found for event in events_of(state, span) for found in self._step(state, event)]

    def _step(self, state: State, event: Event) -> Iterator[dict[str, Any]]:
        state["n"] += 1
        true = {name for name, predicate in self._predicates.items() if predicate(event)}
        states: dict[str, int] = state["m"]
        for rule, machine, steps, slice_of in self._rules:
            if steps is not None and not steps(true):
                continue
            value = slice_of(event)
            key = f"{rule.pack}/{rule.id}/"
            slot = key if value is None else f"{key}{value}"
            before = states.get(slot, states.get(key, 0))
            word = machine.word([name for name in machine.propositions if (rule.pack, name) in true])
            states[slot], output = machine.step(before, word)
            if output & VERDICT_MASK == VIOLATED:
                yield {"pack": rule.pack, "rule": rule.id, "seq": state["n"]}


def closure(predicate: Predicate) -> Callable[[Event], bool]:
    """Return a predicate as a function of an event."""
    match predicate:
        case Literal():
            return lambda _: predicate.value
        case And():
            every = [closure(arg) for arg in predicate.args]
            return lambda event: all(holds(event) for holds in every)
        case Or():
            disjuncts = [closure(arg) for arg in predicate.args]
            return lambda event: any(holds(event) for holds in disjuncts)
        case Not():
            holds = closure(predicate.arg)
            return lambda event: not holds(event)
        case Quantified() | Measured() | Contained():
            raise ValueError("the rival has no conditions on lists")
        case Leaf():
            return _leaf(_value(predicate.path), predicate.test, predicate.operands)


def _leaf(value: Callable[[Event], Any], test: Test, operands: tuple[Any, ...]) -> Callable[[Event], bool]:
    """Return one question about a value, which has no answer where the value is absent."""
    match test:
        case Test.IS_NULL:
            return lambda event: value(event) is None
        case Test.IS_TRUE:
            return lambda event: bool(value(event))
        case Test.IN:
            members = set(operands)
            return lambda event: value(event) in members
        case Test.MATCHES:
            search = re.compile(str(operands[0])).search
            return lambda event: (text := value(event)) is not None and search(str(text)) is not None
        case Test.CONTAINS:
            return lambda event: (text := value(event)) is not None and operands[0] in text
        case Test.STARTS_WITH:
            return lambda event: (text := value(event)) is not None and str(text).startswith(operands[0])
        case Test.EQ:
            return lambda event: value(event) == operands[0]
        case Test.NE:
            return lambda event: (found := value(event)) is not None and found != operands[0]
        case _:
            compared = COMPARED[test]
            return lambda event: (
                (number := _number(value(event))) is not None and compared(number, operands[0])
            )


def _value(path: Path) -> Callable[[Event], Any]:
    """Return a function that reads a field of an event, or what stands at a path in its JSON text."""
    if not path.steps:
        return lambda event: event.get(path.field)

    def read(event: Event) -> Any:
        try:
            value = orjson.loads(event[path.field])
            for step in path.steps:
                value = value[step]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
        return value

    return read


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _slicer(key: SliceKey | None) -> Callable[[Event], str | None]:
    """Return a function that reads the value that names an event's slice."""
    readers = [] if key is None else [_value(path) for path in key.paths]
    if key is None or not key.joint:
        return lambda event: next(
            (str(found) for read in readers if (found := read(event)) is not None), None
        )

    def joint(event: Event) -> str | None:
        found = [read(event) for read in readers]
        return None if None in found else str(found)

    return joint


def _condition(rule: Rule, formula: Formula | None) -> Callable[[set[tuple[str, str]]], bool] | None:
    """Return a Boolean formula as a function of the propositions that are true."""
    if formula is None:
        return None
    if formula.op is Op.PROP:
        name = (rule.pack, formula.name)
        return lambda true: name in true
    args: Any = [_condition(rule, arg) for arg in formula.args]
    match formula.op:
        case Op.AND:
            return lambda true: all(holds(true) for holds in args)
        case Op.OR:
            return lambda true: any(holds(true) for holds in args)
        case Op.NOT:
            return lambda true: not args[0](true)
        case _:
            raise ValueError(formula.op)
