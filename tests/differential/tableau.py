"""LTL3 by the classic tableau of atoms, past included, as a second opinion on the reference's.

An atom is a guess, for one position, of the propositions and of what every temporal subformula claims of the
next and of the previous position (Lichtenstein, Pnueli and Zuck, 1985, The Glory of the Past). A word makes a
formula true if and only if a path through the atoms has its letters, begins with no past, and visits for
every `p until q` infinitely often an atom where it is false or q is true. Nothing here is shared with
`tracline.rules.reference.semantics`: formulas are first rewritten to not, and, next, until, previous and
since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from tracline.rules.model.formula import TRUE, Formula, Op, names
from tracline.schemas.verdict import Verdict

Mask = int
"""A set of atoms, one bit each."""


def _not(f: Formula) -> Formula:
    return Formula(Op.NOT, (f,))


def _and(f: Formula, g: Formula) -> Formula:
    return Formula(Op.AND, (f, g))


def _or(f: Formula, g: Formula) -> Formula:
    return _not(_and(_not(f), _not(g)))


def _next(f: Formula) -> Formula:
    return Formula(Op.NEXT, (f,))


def _previous(f: Formula) -> Formula:
    return Formula(Op.PREVIOUS, (f,))


@cache
def core(f: Formula) -> Formula:
    """Return an equal formula on infinite words in not, and, next, until, previous and since."""
    args = [core(arg) for arg in f.args]
    if f.bounds is not None:
        return _unrolled(f.op, args[0], *f.bounds)
    match f.op, args:
        case ((Op.PROP | Op.TRUE), _):
            return f
        case Op.FALSE, _:
            return _not(TRUE)
        case Op.NOT, [p]:
            return _not(p)
        case Op.AND, [p, q]:
            return _and(p, q)
        case Op.OR, [p, q]:
            return _or(p, q)
        case Op.IMPLIES, [p, q]:
            return _or(_not(p), q)
        case Op.IFF, [p, q]:
            return _or(_and(p, q), _and(_not(p), _not(q)))
        case ((Op.NEXT | Op.WEAK_NEXT), [p]):
            return _next(p)
        case Op.PREVIOUS, [p]:
            return _previous(p)
        case Op.WEAK_PREVIOUS, [p]:
            return _not(_previous(_not(p)))
        case Op.EVENTUALLY, [p]:
            return Formula(Op.UNTIL, (TRUE, p))
        case Op.ALWAYS, [p]:
            return _not(Formula(Op.UNTIL, (TRUE, _not(p))))
        case Op.ONCE, [p]:
            return Formula(Op.SINCE, (TRUE, p))
        case Op.HISTORICALLY, [p]:
            return _not(Formula(Op.SINCE, (TRUE, _not(p))))
        case ((Op.UNTIL | Op.SINCE), [p, q]):
            return Formula(f.op, (p, q))
        case ((Op.WEAK_UNTIL | Op.WEAK_SINCE), [p, q]):  # p W q  =  not (not q U not (p or q))
            strong = Op.UNTIL if f.op is Op.WEAK_UNTIL else Op.SINCE
            return _not(Formula(strong, (_not(q), _not(_or(p, q)))))
        case Op.RELEASE, [p, q]:  # p R q  =  not (not p U not q)
            return _not(Formula(Op.UNTIL, (_not(p), _not(q))))
        case _:
            assert f.op is Op.STRONG_RELEASE
            return Formula(Op.UNTIL, (args[1], _and(args[0], args[1])))


def _unrolled(op: Op, p: Formula, a: int, b: int) -> Formula:
    """Return a bounded operator as nested steps; `at_most[k]` as the absence of a k + 1st p."""
    if op is Op.AT_MOST:
        unrolled = TRUE
        for count in range(b + 1):
            unrolled = Formula(Op.SINCE, (TRUE, _and(p, _previous(unrolled) if count else TRUE)))
        return _not(unrolled)
    weak = op in (Op.ALWAYS, Op.HISTORICALLY, Op.WEAK_NEXT, Op.WEAK_PREVIOUS)
    step = _next if op in (Op.NEXT, Op.WEAK_NEXT, Op.EVENTUALLY, Op.ALWAYS) else _previous
    wanted = _not(p) if weak else p
    result = wanted
    for _ in range(b - a):
        result = _or(wanted, step(result))
    for _ in range(a):
        result = step(result)
    return _not(result) if weak else result


@dataclass(frozen=True)
class Tableau:
    """The atoms of a formula: their successors, their letters, and where paths may begin and go on for ever.

    `true` are the atoms at which the formula is true.
    """

    successors: tuple[Mask, ...]
    letters: dict[frozenset[str], Mask]
    initial: Mask
    true: Mask
    live: Mask

    def first(self, letter: frozenset[str]) -> Mask:
        """Return the atoms at the first position of a word."""
        return self.initial & self.letters[letter]

    def after(self, atoms: Mask, letter: frozenset[str]) -> Mask:
        """Return the atoms at the next position, given those at this one."""
        found = 0
        for atom, successors in enumerate(self.successors):
            if atoms >> atom & 1:
                found |= successors
        return found & self.letters[letter]

    def verdict(self, holding: Mask, failing: Mask) -> Verdict:
        """LTL3, from the atoms here on paths where the formula holds, and fails, at its instance's start."""
        if not holding & self.live:
            return Verdict.VIOLATED
        return Verdict.PENDING if failing & self.live else Verdict.SATISFIED


def tableau(
    formula: Formula, alphabet: Sequence[frozenset[str]], transitions: Mapping[str, Formula] | None = None
) -> Tableau:
    """Return the tableau of a formula over words of that alphabet."""
    bits = {name: core(f) for name, f in (transitions or {}).items()}
    root = core(formula)
    nodes = list(dict.fromkeys(node for f in (root, *bits.values()) for node in _operands_first(f)))
    ahead = [f.args[0] if f.op is Op.NEXT else f for f in nodes if f.op in (Op.NEXT, Op.UNTIL)]
    back = [f.args[0] if f.op is Op.PREVIOUS else f for f in nodes if f.op in (Op.PREVIOUS, Op.SINCE)]
    ahead, back = list(dict.fromkeys(ahead)), list(dict.fromkeys(back))
    used = sorted(frozenset().union(*map(names, nodes)))
    atoms: list[tuple[frozenset[str], tuple[bool, ...], tuple[bool, ...], dict[Formula, bool]]] = []
    for guess in product((False, True), repeat=len(used) + len(ahead) + len(back)):
        props = frozenset(name for name, value in zip(used, guess, strict=False) if value)
        future, past = guess[len(used) : len(used) + len(ahead)], guess[len(used) + len(ahead) :]
        value = _values(
            nodes, props, dict(zip(ahead, future, strict=True)), dict(zip(back, past, strict=True))
        )
        if all(value[f] == (name in props) for name, f in bits.items()):
            atoms.append((props - set(bits), future, past, value))
    keyed: dict[tuple[tuple[bool, ...], tuple[bool, ...]], Mask] = {}
    for i, (_, _, past, value) in enumerate(atoms):
        key = tuple(value[f] for f in ahead), past
        keyed[key] = keyed.get(key, 0) | 1 << i
    successors = tuple(keyed.get((future, tuple(value[f] for f in back)), 0) for _, future, _, value in atoms)
    untils = [f for f in nodes if f.op is Op.UNTIL]
    fulfilled = [_mask(not value[f] or value[f.args[1]] for *_, value in atoms) for f in untils]
    seen = set(used)
    return Tableau(
        successors,
        {letter: _mask(atom[0] == letter & seen for atom in atoms) for letter in alphabet},
        _mask(not any(past) for _, _, past, _ in atoms),
        _mask(value[root] for *_, value in atoms),
        _live(successors, fulfilled),
    )


def _operands_first(f: Formula) -> Iterator[Formula]:
    for arg in f.args:
        yield from _operands_first(arg)
    yield f


def _mask(values: Iterable[object]) -> Mask:
    return sum(1 << i for i, value in enumerate(values) if value)


def _values(
    nodes: Sequence[Formula],
    props: frozenset[str],
    ahead: Mapping[Formula, bool],
    back: Mapping[Formula, bool],
) -> dict[Formula, bool]:
    """Return the truth of every node at an atom; operands come before their operators in `nodes`."""
    value: dict[Formula, bool] = {}
    for f in nodes:
        match f.op, f.args:
            case Op.TRUE, _:
                value[f] = True
            case Op.PROP, _:
                value[f] = f.name in props
            case Op.NOT, (p,):
                value[f] = not value[p]
            case Op.AND, (p, q):
                value[f] = value[p] and value[q]
            case Op.NEXT, (p,):
                value[f] = ahead[p]
            case Op.PREVIOUS, (p,):
                value[f] = back[p]
            case _, (p, q):
                value[f] = value[q] or (value[p] and (ahead if f.op is Op.UNTIL else back)[f])
            case _:
                raise AssertionError(f)
    return value


def _live(successors: Sequence[Mask], fulfilled: Sequence[Mask]) -> Mask:
    """Return the atoms from which a path reaches a strongly connected part that keeps every until."""
    reach = [*successors]
    for middle in range(len(reach)):
        bit, through = 1 << middle, reach[middle]
        for i in range(len(reach)):
            if reach[i] & bit:
                reach[i] |= through
    good = 0
    for i, forth in enumerate(reach):
        if forth >> i & 1:
            part = _mask(forth >> j & 1 and reach[j] >> i & 1 for j in range(len(reach)))
            if all(part & mask for mask in fulfilled):
                good |= part
    return _mask(good >> i & 1 or forth & good for i, forth in enumerate(reach))
