"""Suggested propositions for a pack that extends a shipped one: its tools are replaced by an agent's tools.

Tools are recognised by the words of their names and by their arguments, so the owner of the pack has to
confirm every suggestion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..model.predicate import Leaf, Path, Predicate, Test, leaves

TOOL = Path("tool")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,100}")
"""The names of tools that are suggested: they need no escapes."""

_TOOL_TEST = re.compile(r'tool\s+in\s+\[[^\]]*\]|tool\s*==\s*"[^"]*"')
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that sessions use: its name, and the names of its arguments."""

    name: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolPattern:
    """A pattern of tools: the name has a word of `verbs` and one of `nouns`, and none of `never`.

    Empty `verbs` or `nouns` match any name. With `arguments`, the tool also takes an id of such a thing.
    """

    verbs: frozenset[str] = frozenset()
    nouns: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    arguments: frozenset[str] = frozenset()

    def fits(self, tool: Tool) -> bool:
        """Return whether the tool matches the pattern."""
        words = words_of(tool.name)
        wanted = [required for required in (self.verbs, self.nouns) if required]
        if words & self.never or not all(words & required for required in wanted):
            return False
        return not self.arguments or any(
            words_of(argument) & self.arguments and "id" in words_of(argument) for argument in tool.arguments
        )


def words_in(name: str) -> tuple[str, ...]:
    """Return the words of a name in snake or camel case, in lower case."""
    return tuple(word.lower() for word in _WORD.findall(name))


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name, plurals also as singulars, and `log in` also as `login`."""
    words = words_in(name)
    pairs = {first + second for first, second in pairwise(words)}
    return frozenset({*words, *pairs, *(word.removesuffix("s") for word in words)})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READ = _words(
    "get read fetch find look lookup show view list check retrieve query describe load search track status"
)
_WRITE = _words(
    "cancel return exchange modify update change edit set delete remove close replace add submit reset swap"
    " amend adjust apply upgrade downgrade pause resume rebook reschedule redirect transfer"
)
_PERSON = _words(
    "user customer client member account caller profile identity person guest traveller passenger subscriber"
)
_ORDER = _words(
    "order purchase item product delivery shipment address payment subscription plan email phone password"
)
_BOOKING = _words("reservation booking flight ticket trip seat baggage passenger itinerary appointment room")
_STAFF = _words("human agent person support specialist supervisor operator representative staff desk")
_VERIFY = _words("verify authenticate auth identify login signin validate")
_PAY = _words("refund reimburse reimbursement payback")
_GIFT = _words("certificate voucher coupon compensation goodwill giftcard")
_IDS = _words("order reservation booking purchase ticket trip appointment")
_HAND = _words("transfer escalate handoff handover")

_OTHERS = _READ | _PAY | _GIFT | _STAFF - _words("person")
_LOOK = _READ - _words("search list")
_ACCOUNT_CHANGE = ToolPattern(_WRITE, _ORDER | _PERSON, _OTHERS | _BOOKING)
_BOOKING_CHANGE = ToolPattern(_WRITE | _words("book reserve"), _BOOKING, _OTHERS)
_REFUND = ToolPattern(nouns=_PAY, never=_READ | _STAFF | _words("eligibility policy quote calculate"))
_CERTIFICATE = ToolPattern(nouns=_GIFT, never=_READ | _STAFF | _words("redeem apply"))
_ITEMS_CHANGE = ToolPattern(
    _words("exchange modify change swap replace update edit"), _words("item product"), _READ
)
_AUTHENTICATED = (
    ToolPattern(
        _words("find lookup search") | _VERIFY,
        _PERSON | _words("pin otp code password"),
        _words("order detail history"),
    ),
    ToolPattern(_words("authenticate login signin")),
)
_ORDER_READ = ToolPattern(_LOOK, _words("order purchase"), _WRITE | _PERSON)
_BOOKING_READ = ToolPattern(
    _LOOK, _words("reservation booking trip itinerary ticket appointment"), _WRITE | _PERSON
)
_BOOKED = ToolPattern(_words("book reserve"), _BOOKING, _READ)
_PERSON_READ = ToolPattern(_LOOK, _PERSON, _WRITE)
_APPROVAL = ToolPattern(nouns=_words("approval approve authorisation authorization"))
_HAND_OVER = (
    ToolPattern(_HAND, _STAFF - _words("agent desk")),
    ToolPattern(_words("escalate handoff handover")),
)

TOOL_PATTERNS: Mapping[str, Mapping[str, tuple[ToolPattern, ...]]] = {
    "customer-service": {
        "account_change": (_ACCOUNT_CHANGE,),
        "booking_change": (_BOOKING_CHANGE,),
        "refund": (_REFUND,),
        "certificate": (_CERTIFICATE,),
        "large_refund": (_REFUND,),
        "write_done": (_ACCOUNT_CHANGE, _BOOKING_CHANGE, _REFUND, _CERTIFICATE),
        "items_change": (_ITEMS_CHANGE,),
        "items_changed": (_ITEMS_CHANGE,),
        "order_change": tuple(
            ToolPattern(pattern.verbs - _words("book reserve"), pattern.nouns, pattern.never, _IDS)
            for pattern in (_ACCOUNT_CHANGE, _BOOKING_CHANGE, _REFUND)
        ),
        "authenticated": _AUTHENTICATED,
        "order_read": (_ORDER_READ,),
        "order_seen": (_ORDER_READ, _BOOKING_READ, _BOOKED),
        "traveller_known": (_PERSON_READ, _BOOKING_READ),
        "approved": (_APPROVAL,),
        "hands_over": _HAND_OVER,
        "handed_over": _HAND_OVER,
    }
}
"""The patterns of tools for each proposition of a shipped pack that names tools."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggested proposition: its tools, those that are only guessed, and its text (empty without tools)."""

    name: str
    tools: tuple[str, ...]
    guessed: tuple[str, ...]
    text: str


def suggestions(
    pack: str, propositions: Mapping[str, tuple[str, Predicate]], tools: Sequence[Tool]
) -> Iterator[Suggestion]:
    """Yield a suggestion for each proposition of a shipped pack that names tools, in the pack's order.

    `propositions` are the pack's, each as text and parsed. A tool that the pack names is only suggested for
    the propositions that name it.
    """
    named = {name: tools_named(predicate) for name, (_, predicate) in propositions.items()}
    known = frozenset[str]().union(*named.values())
    for name, patterns in TOOL_PATTERNS[pack].items():
        text, _ = propositions[name]
        shipped = [tool.name for tool in tools if tool.name in named[name]]
        guessed = [
            tool.name
            for tool in tools
            if tool.name not in known
            and PLAIN_NAME.fullmatch(tool.name)
            and any(pattern.fits(tool) for pattern in patterns)
        ]
        both = sorted([*shipped, *guessed])
        taking = [tool for tool in tools if tool.name in both]
        yield Suggestion(name, tuple(both), tuple(sorted(guessed)), _text(text, taking) if both else "")


def tools_named(predicate: Predicate) -> frozenset[str]:
    """Return the tools that a predicate names."""
    return frozenset(
        str(operand)
        for leaf in leaves(predicate)
        if isinstance(leaf, Leaf) and leaf.path == TOOL and leaf.test in (Test.EQ, Test.IN)
        for operand in leaf.operands
    )


def _text(text: str, tools: Sequence[Tool]) -> str:
    """Return a proposition's text with its tools replaced by these."""
    quoted = ", ".join(f'"{tool.name}"' for tool in sorted(tools, key=lambda tool: tool.name))
    test = f"tool == {quoted}" if len(tools) == 1 else f"tool in [{quoted}]"
    changed = " ".join(_TOOL_TEST.sub(lambda _: test, text).split())
    amount = _amount(tools)
    return changed if amount is None else changed.replace("args.amount", f"args.{amount}")


def _amount(tools: Sequence[Tool]) -> str | None:
    """Return the argument that is probably the amount; None if one is called `amount`."""
    names = [argument for tool in tools for argument in tool.arguments]
    if "amount" in names:
        return None
    similar = [name for name in names if set(words_in(name)) & _words("amount total sum value")]
    return next((name for name in similar if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)), None)
