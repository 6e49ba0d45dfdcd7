"""The course of a simulated conversation: find the customer, carry out the request, take leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from . import words
from .scene import REFUND_LIMIT, RETRIES, Break, Scene
from .secrets import card_number, leak

TOOLS = {
    "cancel": "cancel_pending_order",
    "return": "return_delivered_order_items",
    "exchange": "exchange_delivered_order_items",
    "modify": "modify_pending_order_items",
    "address": "modify_pending_order_address",
    "refund": "issue_refund",
}
STATUS = {"cancel": "pending", "modify": "pending", "address": "pending"}
ORDINARY = tuple(words.WANTS)
INTENTS = {
    Break.AUTHENTICATE: tuple(TOOLS),
    Break.READ: tuple(TOOLS),
    Break.CONFIRM_CHANGE: ("cancel", "return", "exchange", "modify", "address"),
    Break.CONFIRM_REFUND: ("refund",),
    Break.UNANSWERED: (*TOOLS, "question"),
    Break.HANDED_OVER: ("human",),
    Break.UNSEEN: tuple(TOOLS),
    Break.CHANGED_TWICE: ("exchange", "modify"),
    Break.UNAPPROVED: ("refund",),
    Break.FALSE_CLAIM: tuple(TOOLS),
    Break.SURVEYED_TWICE: (*TOOLS, "question"),
}
"""The intents that allow a kind of break; a kind that is not listed is possible with all."""


@dataclass(frozen=True, slots=True)
class CustomerRequest:
    """A customer's request, with the values that tools and texts need."""

    intent: str
    first: str
    last: str
    zip: str
    email: str
    user_id: str
    order: str
    good: str
    option: str
    price: float
    card: str
    address: str
    reason: str

    @property
    def slots(self) -> dict[str, str]:
        """Return the values for the slots of a text."""
        return {
            "first": self.first, "last": self.last, "zip": self.zip, "email": self.email,
            "order": self.order, "good": self.good, "option": self.option, "price": f"${self.price:.2f}",
            "card": f"card ending in {self.card[-4:]}", "address": self.address, "reason": self.reason,
        }  # fmt: skip


def play(scene: Scene, fault: Break | None) -> None:
    """Play a whole conversation in the scene, with that fault only."""
    rng = scene.rng
    request = _request(rng, fault)
    if rng.random() < 0.6:
        scene.agent(scene.pick(words.GREETINGS))
    scene.customer(scene.pick(words.WANTS[request.intent], **request.slots))
    late = rng.random() < 0.5
    if fault is Break.UNANSWERED and not late:
        _wait_in_vain(scene, rng.randint(3, 5))
    elif rng.random() < 0.08:
        _wait_in_vain(scene, rng.randint(1, 2))
    _find_customer(scene, request, fault)
    _order_number(scene, request)
    _mishap(scene, request, fault)
    _serve(scene, request, fault)
    if not scene.handed_over:
        _take_leave(scene, fault)
    if fault is Break.UNANSWERED and late:
        scene.customer(scene.pick(words.WANTS["question"], **request.slots))


def _request(rng: Random, fault: Break | None) -> CustomerRequest:
    intent = rng.choice(INTENTS.get(fault, ORDINARY) if fault else ORDINARY)
    first, last = rng.choice(words.FIRST_NAMES), rng.choice(words.LAST_NAMES)
    number = rng.randrange(1000, 10000)
    large = fault is Break.UNAPPROVED or (intent == "refund" and rng.random() < 0.25)
    price = rng.uniform(REFUND_LIMIT + 1, 1900) if large else rng.uniform(9, REFUND_LIMIT - 1)
    return CustomerRequest(
        intent, first, last, f"{rng.randrange(10000, 99999)}",
        f"{first}.{last}{number}@example.com".lower(), f"{first}_{last}_{number}".lower(),
        f"#W{rng.randrange(1000000, 9999999)}", rng.choice(words.GOODS), rng.choice(words.OPTIONS),
        round(price, 2), card_number(rng), f"{rng.randrange(1, 999)} {rng.choice(words.STREETS)}",
        rng.choice(words.REASONS),
    )  # fmt: skip


def _wait_in_vain(scene: Scene, messages: int) -> None:
    for _ in range(messages):
        scene.customer(scene.pick(words.WAITING))


def _find_customer(scene: Scene, request: CustomerRequest, fault: Break | None) -> None:
    """Ask for the customer's identity and look the account up; one in eight customers mistypes it."""
    rng = scene.rng
    if fault is Break.READ:
        _look_up(scene, request)
    by_email = rng.random() < 0.6
    tool, args = (
        ("find_user_id_by_email", {"email": request.email})
        if by_email
        else (
            "find_user_id_by_name_zip",
            {"first_name": request.first, "last_name": request.last, "zip": request.zip},
        )
    )
    scene.agent(scene.pick(words.WHO_ARE_YOU))
    scene.customer(scene.pick(words.BY_EMAIL if by_email else words.BY_NAME, **request.slots))
    if fault is Break.AUTHENTICATE:
        if rng.random() < 0.5:
            scene.use(tool, args, "Error: user not found", error="not_found")
        scene.agent("Thank you. Which order is it about?")
        return
    if rng.random() < 0.12:
        mistyped = {key: f"{value}x" for key, value in args.items()}
        scene.use(tool, mistyped, "Error: user not found", error="not_found")
        scene.agent(scene.pick(words.NOT_FOUND))
        scene.customer(scene.pick(words.BY_EMAIL, **request.slots))
        tool, args = "find_user_id_by_email", {"email": request.email}
    _use_flaky(scene, tool, args, request.user_id)
    scene.agent(scene.pick(words.FOUND, **request.slots))


def _order_number(scene: Scene, request: CustomerRequest) -> None:
    scene.customer(scene.pick(words.WHICH_ORDER, **request.slots))
    if scene.rng.random() < 0.05:
        scene.customer(f"By the way, I paid with my card {request.card}.")


def _look_up(scene: Scene, request: CustomerRequest) -> None:
    _use_flaky(scene, "get_order_details", {"order_id": request.order}, _order(request))


def _order(request: CustomerRequest) -> Mapping[str, object]:
    return {
        "order_id": request.order,
        "user_id": request.user_id,
        "status": STATUS.get(request.intent, "delivered"),
        "items": [{"name": request.good, "item_id": request.order[2:] + "001", "price": request.price}],
        "address": {"address1": request.address, "zip": request.zip},
        "payment": {"payment_method_id": f"credit_card_{request.card[-4:]}", "amount": request.price},
    }


def _use_flaky(scene: Scene, tool: str, args: Mapping[str, object], result: object) -> None:
    """Use a tool that sometimes times out, with the permitted number of retries."""
    for _ in range(RETRIES if scene.rng.random() < 0.04 else 0):
        scene.use(tool, args, "Error: the service did not answer in time", error="timeout")
    scene.use(tool, args, result)


def _serve(scene: Scene, request: CustomerRequest, fault: Break | None) -> None:
    if request.intent == "human":
        _hand_over(scene, request, fault)
    elif request.intent == "question":
        _look_up(scene, request)
        scene.agent(scene.pick(words.STATUS, status="on its way", **request.slots))
    else:
        _change(scene, request, fault)


def _hand_over(scene: Scene, request: CustomerRequest, fault: Break | None) -> None:
    scene.use(
        "transfer_to_human_agents",
        {"summary": f"{request.first} {request.last} asks for a person about the {request.good}"},
        "Transfer successful",
    )
    scene.agent(scene.pick(words.HANDS_OVER))
    if scene.rng.random() < 0.4:
        scene.customer(scene.pick(words.FAREWELLS), closes=True)
    if fault is Break.HANDED_OVER:
        _look_up(scene, request)
        scene.agent(scene.pick(words.STATUS, status="delivered", **request.slots))


def _change(scene: Scene, request: CustomerRequest, fault: Break | None) -> None:
    """Look at the order, get approval and agreement, make the change, and report the result."""
    rng, tool, args = scene.rng, TOOLS[request.intent], _args(request, scene.rng)
    if fault is not Break.UNSEEN:
        _look_up(scene, request)
    if rng.random() < 0.06:
        consulted = scene.call("ask_policy_desk", {"topic": request.intent})
        scene.consult(
            scene.pick(words.CONSULTS, **request.slots), scene.pick(words.CONSULTED, **request.slots)
        )
        scene.answer(consulted, "permitted")
    if not _approval(scene, request, fault):
        return
    if not _agreement(scene, request, tool, fault):
        scene.agent(scene.pick(words.LEAVES_IT))
        return
    if fault is Break.FALSE_CLAIM or rng.random() < 0.05:
        scene.use(tool, args, "Error: the order cannot be changed in its present status", error="refused")
        if fault is Break.FALSE_CLAIM:
            scene.agent(scene.pick((words.DONE[tool],), **request.slots), claims=True)
        else:
            scene.agent(scene.pick(words.FAILED, **request.slots))
        return
    _use_flaky(scene, tool, args, {"order_id": request.order, "status": f"{request.intent} requested"})
    scene.agent(scene.pick((words.DONE[tool],), **request.slots), claims=True)
    if fault is Break.CHANGED_TWICE:
        scene.customer("One more thing: I'd rather have another colour, can you change it again?")
        _agreement(scene, request, tool, fault)
        scene.use(tool, {**args, "new_item_ids": ["9000000001"]}, {"status": "changed"})
        scene.agent(scene.pick((words.DONE[tool],), **request.slots), claims=True)


def _args(request: CustomerRequest, rng: Random) -> dict[str, object]:
    """Return the arguments of the tool; models write an amount as a number or as text."""
    args: dict[str, object] = {"order_id": request.order}
    item = request.order[2:] + "001"
    payment = f"credit_card_{request.card[-4:]}"
    if request.intent == "cancel":
        return args | {"reason": request.reason}
    if request.intent == "return":
        return args | {"item_ids": [item], "payment_method_id": payment}
    if request.intent in ("exchange", "modify"):
        return args | {"item_ids": [item], "new_item_ids": [item[:-1] + "2"], "payment_method_id": payment}
    if request.intent == "address":
        return args | {"address1": request.address, "zip": request.zip, "country": "USA"}
    amount = f"{request.price:.2f}" if rng.random() < 0.3 else request.price
    return args | {"amount": amount, "payment_method_id": payment}


def _approval(scene: Scene, request: CustomerRequest, fault: Break | None) -> bool:
    """Return whether the agent continues with the change; a large refund needs a supervisor's approval."""
    if request.intent != "refund" or request.price <= REFUND_LIMIT:
        return True
    if fault is Break.UNAPPROVED and scene.rng.random() < 0.5:
        return True
    denied = fault is Break.UNAPPROVED or scene.rng.random() < 0.15
    scene.agent(scene.pick(words.PENDING_APPROVAL))
    scene.use(
        "request_approval",
        {"order_id": request.order, "amount": request.price},
        {"status": "denied" if denied else "approved", "by": "supervisor"},
    )
    if not denied:
        scene.approved_orders.add(request.order)
    elif fault is not Break.UNAPPROVED:
        scene.agent(scene.pick(words.DENIED))
    return not denied or fault is Break.UNAPPROVED


def _agreement(scene: Scene, request: CustomerRequest, tool: str, fault: Break | None) -> bool:
    """List the action and ask the customer; return whether the agent continues."""
    rng = scene.rng
    careless = fault in (Break.CONFIRM_CHANGE, Break.CONFIRM_REFUND)
    if careless and rng.random() < 0.4:
        return True
    action = words.LISTS[tool].format(**request.slots)
    scene.agent(scene.pick(words.ASKS, action=action), offers=True)
    if careless:
        scene.customer(scene.pick(words.REFUSES if rng.random() < 0.5 else words.ASKS_BACK))
        if rng.random() < 0.3:
            scene.agent(scene.pick(words.EXPLAINS))
        return True
    if fault is None and rng.random() < 0.1:
        scene.customer(scene.pick(words.REFUSES))
        return False
    if rng.random() < 0.15:
        scene.customer(scene.pick(words.ASKS_BACK))
        scene.agent(scene.pick(words.EXPLAINS) + " " + scene.pick(words.ASKS, action=action), offers=True)
    scene.customer(scene.pick(words.AGREES), agrees=True)
    if rng.random() < 0.1:
        scene.agent("One moment, please.")
    return True


def _mishap(scene: Scene, request: CustomerRequest, fault: Break | None) -> None:
    """Play a fault that is possible with any request."""
    order = {"order_id": request.order}
    mishaps: dict[Break, Callable[[], None]] = {
        Break.LOST_RESULT: lambda: _lose_a_result(scene, order),
        Break.SECOND_RESULT: lambda: _answer_twice(scene, order),
        Break.STUBBORN: lambda: _insist(scene, order),
        Break.PARALLEL: lambda: _call_at_once(scene, request),
        Break.UNKNOWN_TOOL: lambda: scene.use(
            "get_loyalty_points", order, "Error: unknown tool get_loyalty_points", error="unknown_tool"
        ),
        Break.SECRET_ARGUMENT: lambda: _note_the_card(scene, request),
    }
    if fault in mishaps:
        mishaps[fault]()
    elif fault is not None:
        leak(scene, fault, request.card)
    elif scene.rng.random() < 0.1:
        scene.use("add_note", {**order, "note": json.dumps({"topic": request.intent})}, "noted")


def _lose_a_result(scene: Scene, args: Mapping[str, object]) -> None:
    scene.call("get_shipping_status", args)
    scene.agent("The carrier's system is slow today, I go on without it.")


def _answer_twice(scene: Scene, args: Mapping[str, object]) -> None:
    call = scene.call("get_shipping_status", args)
    scene.answer(call, {"carrier": "post", "status": "in transit"})
    scene.answer(call, {"carrier": "post", "status": "in transit"})


def _insist(scene: Scene, args: Mapping[str, object]) -> None:
    for _ in range(scene.rng.randint(RETRIES + 2, RETRIES + 4)):
        scene.use("get_shipping_status", args, "Error: carrier unreachable", error="unavailable")


def _call_at_once(scene: Scene, request: CustomerRequest) -> None:
    first = scene.call("get_user_details", {"user_id": request.user_id})
    second = scene.call("get_shipping_status", {"order_id": request.order}, same_message=True)
    scene.answer(first, {"user_id": request.user_id, "orders": [request.order]})
    scene.answer(second, {"carrier": "post", "status": "delivered"})


def _note_the_card(scene: Scene, request: CustomerRequest) -> None:
    note = f"customer pays with {request.card}"
    scene.use("add_note", {"order_id": request.order, "note": note}, "noted")
    scene.breaks.add(Break.SECRET_ARGUMENT)


def _take_leave(scene: Scene, fault: Break | None) -> None:
    rng = scene.rng
    scene.agent(scene.pick(words.ANYTHING_ELSE))
    scene.customer(scene.pick(words.FAREWELLS), closes=True)
    surveys = 2 if fault is Break.SURVEYED_TWICE else int(rng.random() < 0.5)
    for _ in range(surveys):
        scene.survey(scene.pick(words.SURVEY))
        if rng.random() < 0.6:
            scene.customer(str(rng.randint(1, 5)))
            scene.agent(scene.pick(words.RATED))
