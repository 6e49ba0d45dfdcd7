"""Chains as lists of transitions (`.tra`), with their labels in a second list (`.lab`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..error import PredictError
from .chain import ExplicitChain, Transition, explicit_chain, initial_of, state_number

_TRA_HINT = "write a transition a line: its state, the next state and the probability, as in `0 1 0.25`"
_LAB_HINT = "declare labels between #DECLARATION and #END, then write a state a line: `0 init`"


def read_tra(text: str, where: str, labels: str | None = None, labels_where: str = "") -> ExplicitChain:
    """Read a `.tra` file, with or without Storm's first line, and the text of the `.lab` file beside it.

    Raises PredictError: TRL807 with the line, and as `explicit_chain` does.
    """
    transitions = list(_transitions(text, where))
    if not transitions:
        raise PredictError("TRL807", where, "no transitions", _TRA_HINT)
    states = 1 + max(max(each.source, each.target) for each in transitions)
    named: Mapping[str, list[int]] = {} if labels is None else _labels(labels, labels_where, states)
    return explicit_chain(where, states, transitions, named, initial_of(named))


def to_tra(chain: ExplicitChain) -> str:
    """Return a chain without intervals as a `.tra` file with Storm's first line; numbers keep every bit."""
    assert not chain.has_intervals
    rows = zip(chain.sources.tolist(), chain.targets.tolist(), chain.low.tolist(), strict=True)
    return "\n".join(["dtmc", *(f"{source} {target} {share!r}" for source, target, share in rows), ""])


def to_lab(chain: ExplicitChain) -> str:
    """Return the labels of a chain as a `.lab` file; `init` is the initial state."""
    declared = ["init", *sorted(set(chain.labels) - {"init"})]
    lines = [f"{state} {' '.join(names)}" for state, names in sorted(chain.names_by_state().items())]
    return "\n".join(["#DECLARATION", " ".join(declared), "#END", *lines, ""])


def _transitions(text: str, where: str) -> Iterator[Transition]:
    """Yield the transitions of a `.tra` file."""
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or (number == 1 and words == ["dtmc"]):
            continue
        source, target = (state_number(word) for word in words[:2]) if len(words) == 3 else (None, None)
        if source is None or target is None:
            raise PredictError("TRL807", f"{where}:{number}", "not a transition", _TRA_HINT)
        share = number_of(words[2])
        if share is None:
            raise PredictError("TRL807", f"{where}:{number}", "not a probability", _TRA_HINT)
        yield Transition(number, source, target, share, share)


def number_of(word: str) -> float | None:
    """Return a decimal or a rational as a number; None for anything else."""
    above, slash, below = word.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        return None


def _labels(text: str, where: str, states: int) -> Mapping[str, list[int]]:
    """Return the states of each label of a `.lab` file."""
    found: dict[str, list[int]] = {}
    is_declared = False
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words == ["#DECLARATION"]:
            continue
        if words == ["#END"]:
            is_declared = True
        elif not is_declared:
            found |= {name: [] for name in words}
        else:
            word, *names = words
            state = state_number(word)
            if state is None or state >= states:
                raise PredictError("TRL807", f"{where}:{number}", "no state of the chain", _LAB_HINT)
            for name in names:
                if name not in found:
                    raise PredictError(
                        "TRL807", f"{where}:{number}", "a label without a declaration", _LAB_HINT
                    )
                found[name].append(state)
    if not is_declared:
        raise PredictError("TRL807", where, "no line #END", _LAB_HINT)
    return found
