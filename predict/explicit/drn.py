"""Chains in Storm's direct encoding (`.drn`), also with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..error import PredictError
from .chain import ExplicitChain, Transition, explicit_chain, initial_of, state_number
from .transitions import number_of

_HINT = (
    "write a line for a state (`state 0 init`), one for its action, and one for each next state (`1 : 0.5`)"
)


@dataclass(slots=True)
class _Found:
    """The states and transitions read so far."""

    transitions: list[Transition] = field(default_factory=list[Transition])
    labels: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    states: int = 0


def read_drn(text: str, where: str) -> ExplicitChain:
    """Read Storm's direct encoding of a Markov chain, with numbers, rationals or intervals.

    Raises PredictError: TRL807 with the line, and as `explicit_chain` does.
    """
    head, separator, model = text.partition("\n@model\n")
    if "@type: DTMC" not in head.splitlines() or not separator:
        raise PredictError("TRL807", where, "not a Markov chain in Storm's direct encoding", _HINT)
    found = _Found()
    for number, line in enumerate(model.splitlines(), start=head.count("\n") + 3):
        words = line.split()
        if not words or words[0].startswith("//") or words[0].startswith("action"):
            continue
        if words[0] == "state" and len(words) > 1 and words[1] == str(found.states):
            for name in words[2:]:
                found.labels.setdefault(name, []).append(found.states)
            found.states += 1
        else:
            found.transitions.append(_transition(line, number, found.states - 1, where))
    return explicit_chain(where, found.states, found.transitions, found.labels, initial_of(found.labels))


def to_drn(chain: ExplicitChain) -> str:
    """Return a chain in Storm's direct encoding; each number keeps every bit."""
    kind = "double-interval" if chain.has_intervals else "double"
    head = ["@type: DTMC", f"@value_type: {kind}", "@parameters", "", "@reward_models", ""]
    head += ["@nr_states", str(chain.states), "@nr_choices", str(chain.states), "@model"]
    return "\n".join([*head, *_model(chain), ""])


def _model(chain: ExplicitChain) -> Iterator[str]:
    """Yield the lines of the states and their transitions."""
    names = chain.names_by_state()
    targets, low, high = chain.targets.tolist(), chain.low.tolist(), chain.high.tolist()
    for state in range(chain.states):
        yield " ".join(["state", str(state), *names.get(state, [])])
        yield "\taction 0"
        for at in range(chain.starts[state], chain.starts[state + 1]):
            share = f"[{low[at]!r}, {high[at]!r}]" if chain.has_intervals else f"{low[at]!r}"
            yield f"\t\t{targets[at]} : {share}"


def _transition(line: str, number: int, source: int, where: str) -> Transition:
    """Return the transition `TARGET : NUMBER` or `TARGET : [LOW, HIGH]`."""
    word, _, share = (part.strip() for part in line.partition(":"))
    target = state_number(word)
    ends = share[1:-1].split(",") if share.startswith("[") and share.endswith("]") else [share, share]
    numbers = [number_of(end.strip()) for end in ends]
    if source < 0 or target is None or len(numbers) != 2 or None in numbers:
        raise PredictError("TRL807", f"{where}:{number}", "neither a state nor a transition", _HINT)
    low, high = (each for each in numbers if each is not None)
    return Transition(number, source, target, low, high)
