"""One simulated conversation: its steps, and a ledger of the rules that it breaks.

The ledger tracks the state of the conversation (authentication, agreements, open calls) and records each
break. It uses neither the rule language nor the shipped packs, so that an audit can be compared with it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from ...schemas.time import NS

REFUND_LIMIT = 500
"""Maximum refund without a supervisor's approval."""
PATIENCE = 3
"""Messages that a customer may write in a row without an answer."""
RETRIES = 2
"""Permitted unchanged repetitions of a failed call."""

REFUNDS = frozenset({"issue_refund"})
ITEM_CHANGES = frozenset({"exchange_delivered_order_items", "modify_pending_order_items"})
WRITES = REFUNDS | ITEM_CHANGES | {
    "cancel_pending_order",
    "return_delivered_order_items",
    "modify_pending_order_address",
}  # fmt: skip


class Break(Enum):
    """A way to break a rule; the value is the pack and the rule that forbids it."""

    AUTHENTICATE = ("customer-service", "authenticate-first")
    READ = ("customer-service", "authenticate-before-reading")
    CONFIRM_CHANGE = ("customer-service", "confirm-before-change")
    CONFIRM_REFUND = ("customer-service", "confirm-before-refund")
    UNANSWERED = ("customer-service", "answer-within-three-turns")
    HANDED_OVER = ("customer-service", "handover-is-final")
    UNSEEN = ("customer-service", "look-before-change")
    CHANGED_TWICE = ("customer-service", "change-items-once")
    UNAPPROVED = ("customer-service", "approve-large-refund")
    FALSE_CLAIM = ("customer-service", "claim-only-what-was-done")
    SURVEYED_TWICE = ("customer-service", "survey-once")
    LOST_RESULT = ("tool-hygiene", "answer-every-call")
    SECOND_RESULT = ("tool-hygiene", "one-result-per-call")
    STUBBORN = ("tool-hygiene", "no-stubborn-retry")
    PARALLEL = ("tool-hygiene", "one-call-at-a-time")
    UNKNOWN_TOOL = ("tool-hygiene", "known-tools-only")
    API_KEY = ("privacy", "no-api-key")
    PRIVATE_KEY = ("privacy", "no-private-key")
    PASSWORD = ("privacy", "no-password")
    CARD_NUMBER = ("privacy", "no-card-number")
    SECRET_ARGUMENT = ("privacy", "no-secret-in-arguments")
    ASKED_SECRET = ("privacy", "no-asking-for-secrets")


@dataclass(frozen=True, slots=True)
class SceneStep:
    """One step of a conversation: `kind` is `user`, `assistant`, `tool_call` or `tool_result`.

    `message` is the number of the step's chat message (parallel calls share one), `args` is JSON text, and
    `nested` marks a step between the agent and a sub-agent.
    """

    kind: str
    time_ns: int
    message: int
    text: str | None = None
    tool: str | None = None
    call_id: str | None = None
    args: str | None = None
    result: str | None = None
    error: str | None = None
    nested: bool = False


@dataclass(slots=True)
class _Call:
    """A call, and the number of its answers."""

    tool: str
    args: str
    nested: bool
    answers: int = 0


@dataclass(slots=True)
class Scene:
    """A conversation in progress; `steps` and `breaks` are the result."""

    rng: Random
    now_ns: int
    steps: list[SceneStep] = field(default_factory=list[SceneStep])
    breaks: set[Break] = field(default_factory=set[Break])
    authenticated: bool = False
    handed_over: bool = False
    offered: bool = False
    agreed: bool = False
    last_write_done: bool = False
    surveys: int = 0
    unanswered: int = 0
    message: int = 0
    seen_orders: set[str] = field(default_factory=set[str])
    changed_orders: set[str] = field(default_factory=set[str])
    approved_orders: set[str] = field(default_factory=set[str])
    failures: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    calls: dict[str, _Call] = field(default_factory=dict[str, _Call])

    def pick(self, texts: tuple[str, ...], **slots: str) -> str:
        """Choose one of the texts and fill its slots."""
        return self.rng.choice(texts).format(**slots)

    def wait(self, seconds: float) -> None:
        """Advance the time by about so many seconds, at least a little: no two steps share a time."""
        self.now_ns += int(seconds * self.rng.uniform(0.5, 2.0) * NS) + 1_000_000

    def customer(self, text: str, *, agrees: bool = False, closes: bool = False) -> None:
        """Add a message of the customer, who `agrees` to an offer or `closes` the conversation."""
        self.wait(20.0)
        self.message += 1
        self.steps.append(SceneStep("user", self.now_ns, self.message, text=text))
        self.agreed = agrees and self.offered
        self.offered = False
        if self.unanswered or not closes:
            self.unanswered += 1
        if self.unanswered > PATIENCE:
            self.breaks.add(Break.UNANSWERED)

    def agent(self, text: str, *, offers: bool = False, claims: bool = False) -> None:
        """Add a message of the agent, which `offers` an action or `claims` that it was done."""
        self.wait(3.0)
        self.message += 1
        self.steps.append(SceneStep("assistant", self.now_ns, self.message, text=text))
        self.offered = offers
        self.unanswered = 0
        if claims and not self.last_write_done:
            self.breaks.add(Break.FALSE_CLAIM)

    def survey(self, text: str) -> None:
        """Ask the customer for a rating."""
        self.agent(text)
        self.surveys += 1
        if self.surveys > 1:
            self.breaks.add(Break.SURVEYED_TWICE)

    def consult(self, question: str, answer: str) -> None:
        """Add a question of the agent to a sub-agent, and its answer."""
        for kind, text in (("user", question), ("assistant", answer)):
            self.wait(1.0)
            self.steps.append(SceneStep(kind, self.now_ns, self.message, text=text, nested=True))

    def call(self, tool: str, args: Mapping[str, object], *, same_message: bool = False) -> str:
        """Add a tool call, in the message of the last call with `same_message`, and return its id."""
        if not same_message:
            self.wait(2.0)
            self.message += 1
        else:
            self.now_ns += 1_000_000
        call_id = f"call_{self.rng.getrandbits(64):016x}"
        text = json.dumps(dict(args))
        self._book_call(tool, args, text)
        self.calls[call_id] = _Call(tool, text, nested=False)
        self.steps.append(
            SceneStep("tool_call", self.now_ns, self.message, tool=tool, call_id=call_id, args=text)
        )
        return call_id

    def answer(self, call_id: str, result: object, *, error: str | None = None) -> None:
        """Add a tool's answer: `result` is text, or a value for JSON; `error` is the error type."""
        self.wait(0.4)
        self.message += 1
        call = self.calls[call_id]
        text = result if isinstance(result, str) else json.dumps(result)
        # A second answer has no arguments: no log states which call it answers.
        args = None if call.answers else call.args
        self.steps.append(
            SceneStep("tool_result", self.now_ns, self.message, None, call.tool, call_id, args, text, error)
        )
        call.answers += 1
        if call.answers > 1:
            self.breaks.add(Break.SECOND_RESULT)
        self._book_answer(call, error)

    def use(self, tool: str, args: Mapping[str, object], result: object, *, error: str | None = None) -> None:
        """Add a tool call and its answer."""
        self.answer(self.call(tool, args), result, error=error)

    def finish(self) -> None:
        """Record the breaks that only the end shows: calls and questions without an answer."""
        if any(call.answers == 0 for call in self.calls.values()):
            self.breaks.add(Break.LOST_RESULT)
        if self.unanswered:
            self.breaks.add(Break.UNANSWERED)

    def _book_call(self, tool: str, args: Mapping[str, object], text: str) -> None:
        order = str(args.get("order_id"))
        notes = {
            Break.HANDED_OVER: self.handed_over,
            Break.PARALLEL: self.steps[-1].kind == "tool_call" if self.steps else False,
            Break.STUBBORN: self.failures[tool, text] > RETRIES,
            Break.READ: tool == "get_order_details" and not self.authenticated,
            Break.AUTHENTICATE: tool in WRITES and not self.authenticated,
            Break.UNSEEN: tool in WRITES and order not in self.seen_orders,
            Break.CONFIRM_CHANGE: tool in WRITES - REFUNDS and not self.agreed,
            Break.CONFIRM_REFUND: tool in REFUNDS and not self.agreed,
            Break.CHANGED_TWICE: tool in ITEM_CHANGES and order in self.changed_orders,
            Break.UNAPPROVED: tool in REFUNDS
            and float(str(args["amount"])) > REFUND_LIMIT
            and order not in self.approved_orders,
        }
        self.breaks.update(kind for kind, happened in notes.items() if happened)

    def _book_answer(self, call: _Call, error: str | None) -> None:
        key = (call.tool, call.args)
        order = str(json.loads(call.args).get("order_id"))
        self.failures[key] = self.failures[key] + 1 if error else 0
        if call.tool in WRITES:
            self.last_write_done = error is None
        if error == "unknown_tool":
            self.breaks.add(Break.UNKNOWN_TOOL)
        if error:
            return
        if call.tool.startswith("find_user_id"):
            self.authenticated = True
        if call.tool == "get_order_details":
            self.seen_orders.add(order)
        if call.tool in ITEM_CHANGES:
            self.changed_orders.add(order)
        if call.tool == "transfer_to_human_agents":
            self.handed_over = True
