"""Made-up keys, passwords and card numbers of the right shape, and messages that leak them."""

from __future__ import annotations

import base64
from random import Random

from . import words
from .scene import Break, Scene

PREFIXES = ("4", "51", "55", "34", "37", "6011")


def card_number(rng: Random) -> str:
    """Return a card number with a valid length and check digit (ISO/IEC 7812-1), sometimes in groups."""
    prefix = rng.choice(PREFIXES)
    length = 15 if prefix.startswith("3") else 16
    body = prefix + "".join(str(rng.randrange(10)) for _ in range(length - 1 - len(prefix)))
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in body[-1::-2]]
    check = -(sum(doubled) + sum(int(digit) for digit in body[-2::-2])) % 10
    digits = f"{body}{check}"
    if length == 15:
        return digits
    separator = rng.choice(("", " ", "-"))
    return separator.join(digits[i : i + 4] for i in range(0, 16, 4))


def leak(scene: Scene, fault: Break, card: str) -> None:
    """Have the agent leak a secret if that is the fault; ignore other faults."""
    rng = scene.rng
    leaks = {
        Break.API_KEY: (words.LEAKS_API_KEY, _api_key(rng)),
        Break.PRIVATE_KEY: (words.LEAKS_PRIVATE_KEY, base64.b64encode(rng.randbytes(48)).decode()),
        Break.PASSWORD: (
            words.LEAKS_PASSWORD,
            f"{rng.choice(words.GOODS)[-4:]}{rng.randrange(1000)}!Q",
        ),
        Break.CARD_NUMBER: (words.LEAKS_CARD, card),
        Break.ASKED_SECRET: (words.ASKS_SECRET, ""),
    }
    if fault in leaks:
        texts, secret = leaks[fault]
        scene.agent(scene.pick(texts, secret=secret))
        scene.breaks.add(fault)
    if fault is Break.ASKED_SECRET:
        scene.customer("I don't have that at hand.")


def _api_key(rng: Random) -> str:
    text = base64.b32encode(rng.randbytes(40)).decode()
    return rng.choice((f"sk-proj-{text[:40]}", f"AKIA{text[:16]}", f"ghp_{text[:36]}"))
