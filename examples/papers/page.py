"""The page of the papers' figures: `docs/papers.md`, written whole from what is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

from ...predict.estimation.sample_size import pac_local
from . import prevention
from .agents import Forgetful, Player, Policy, uniform
from .asking import asking
from .calibration import brier_skill
from .enforcement import THRESHOLDS, enforced
from .environments.cooking_game import CookingGame
from .environments.environment import Environment, RuleMonitor
from .environments.household import Household
from .environments.recipe import Recipe
from .prevention import PROPOSALS, RUNS, SAMPLES, STEPS, THRESHOLD, WITHIN, violations_a_step
from .pro2guard import FORK_AND_MICROWAVE, LEFT_TURN, CountedChain
from .warning import PACK, SESSIONS, desk_rules, sample_sizes, warning_in_advance

POLICIES: Sequence[tuple[str, Policy]] = (("random", uniform), ("forgetful", Forgetful()))
ENVIRONMENTS: Sequence[tuple[str, Environment]] = (("Household", Household()), ("Recipe", Recipe()))

INTERVENTIONS = (
    ("none", prevention.unchecked),
    (f"best of {PROPOSALS}, nothing predicted", prevention.one_step),
    (f"{SAMPLES} samples, at a risk of {THRESHOLD}", prevention.by_samples),
    (f"{SAMPLES} samples, at every step", prevention.always_sampling),
    (f"solved, at a risk of {THRESHOLD}", prevention.by_solving),
    ("solved, at every step", prevention.always_solving),
    ("solved, among all actions", prevention.least_of_all),
)


def page(game: Path, model: str | None = None) -> str:
    """Return the page; `game` is that of TextWorld, `model` the address of a model to ask as well."""
    environments = (*ENVIRONMENTS, ("TextWorld", CookingGame(game)))
    parts = (
        _introduction(),
        pro2guard(),
        _desk(),
        _enforcement(),
        _trac(environments),
        asking(model),
        _left_out(),
    )
    return "\n".join([*(line for part in parts for line in part), ""])


def _introduction() -> Iterator[str]:
    yield "# The papers' figures of prediction"
    yield ""
    yield "`make papers` computes the figures of this page again and writes it."
    yield "Pro2Guard predicts by chains learned from runs, and TRAC by a monitor that samples continuations."


def pro2guard() -> Iterator[str]:
    """Yield the lines on the two chains that Pro2Guard prints; they are exact."""
    fork, unsafe = FORK_AND_MICROWAVE, FORK_AND_MICROWAVE.reaching("s3", 1)
    yield from ("", "## Pro2Guard, figure 1: fork and microwave", "")
    yield "150 steps stay in s0, 30 lead from s0 to s1, and 30 from s1 to the end; s2 and s3 were never seen."
    yield ""
    rows = [
        ["P(s0 to s1)", "31/184 = 0.168478", f"{fork.rows(1)[0][1]:.6f}"],
        ["P(unsafe) from s0", "-", f"{unsafe['s0']:.6f}"],
        ["P(unsafe) from s1", "-", f"{unsafe['s1']:.6f}"],
        ["P(unsafe) from s2", "-", f"{unsafe['s2']:.6f}"],
        ["P(unsafe) from s0, frequencies", "-", f"{fork.reaching('s3', 0)['s0']:.6f}"],
    ]
    yield from _table(["figure", "published", "here"], rows)
    yield ""
    yield "By hand, with 33 s0 = 31 s1 + s2, 33 s1 = s0 + 1 and 3 s2 = s0 + 1: 14/349, 11/349 and 121/349."
    yield "All of the risk is smoothing: without it nothing reaches s3."
    yield from _figure_1_readings()
    yield from ("", "## Pro2Guard, table 2: a left turn", "")
    smooth, plain = LEFT_TURN.reaching("collision", 1), LEFT_TURN.reaching("collision", 0)
    names = {
        "1101": ("nobody ahead, standing", "47.15"),
        "1111": ("nobody ahead, moving", "41.58"),
        "0111": ("a vehicle ahead, moving", "56.78"),
        "collision": ("collided", "100.00"),
        "reached": ("arrived", "0.00"),
    }
    rows = [
        [text, f"{value} %", f"{100 * smooth[state]:.2f} %", f"{100 * plain[state]:.2f} %"]
        for state, (text, value) in names.items()
    ]
    yield from _table(["state", "published", "here", "frequencies"], rows)
    yield ""
    yield "The published values come from another sample of runs; the order is the same."
    yield "The last column has no smoothing: the table shows smoothing as much as driving."
    yield from ("", "## Pro2Guard, the sample-size rule", "")
    for text, chain in (("figure 1", fork), ("table 2", LEFT_TURN)):
        yield f"- {text}: {_pac(chain)}"


def _figure_1_readings() -> Iterator[str]:
    """Yield the lines on other values of figure 1, and on what its runs exclude."""
    unseen = 1 - 0.05 ** (1 / FORK_AND_MICROWAVE.counts["s0"]["s1"])
    yield f"That none of 30 runs came to s3 excludes more than {100 * unseen:.1f} % from s0, at 95 %."
    yield ""
    yield "The valid successors are those that change at most one of the two propositions, and the end."
    yield "P(s0 to s1) has the denominator 184 = 180 + 4, so s0 has four: s0, s1, one more, and the end."
    yield "P(unsafe) has also been stated as 4/29 from s0, 43/87 from s1 and 353/1047 from s2."
    yield (
        "No valid successors give these together: 151/184 stay in s0 and 31/184 lead to s1, so P(unsafe) from"
        " s0 is at least 31/33 of that from s1, and 4/29 is less than 31/33 of 43/87."
    )
    yield (
        "None of the 4,096 choices of valid successors of s0, s1 and s2 gives 4/29 from s0, or 43/87 from s1;"
        " four give 353/1047 from s2, with s3 a successor of s0, 43/1047 from s0 and 4/349 from s1."
    )


def _states_with_enough(chain: CountedChain) -> list[str]:
    """Return the states that were left at least as often as H* asks for, at eps 0.1 and delta 0.05."""
    counts = [[chain.counts.get(a, {}).get(b, 0) for b in chain.states] for a in chain.states]
    bounds = pac_local(counts)
    return [
        state
        for state, row, bound in zip(chain.states, counts, bounds, strict=True)
        if bound is not None and sum(row) >= bound
    ]


def _pac(chain: CountedChain) -> str:
    enough, left = _states_with_enough(chain), sum(1 for row in chain.counts.values() if row)
    named = ", ".join(f"`{state}`" for state in enough) or "none"
    return f"{len(chain.states)} states, {left} of them ever left; H* is reached in {named}."


def _desk() -> Iterator[str]:
    rules = desk_rules()
    yield f"- the chains of `{PACK}`, learned from {SESSIONS:,} sessions of the simulated support desk."
    yield f"  They are {sample_sizes(rules)}"
    yield ""
    yield "What reaches H* still lacks the factor (1.1 B)^2 of the rule."
    yield from ("", "## Pro2Guard, table 1: the warning in advance", "")
    yield "The paper's table needs its driving simulator; here the same desk takes its place, in events."
    yield "The warning is the first event at which the risk within five events is at least the threshold."
    yield "The threshold is the greatest of which at most a tenth of violating sessions is missed, at 95 %."
    yield "The figures are of the sessions held out; the lead is its median, with the quartiles."
    yield ""
    header = ["rule", "threshold", "violating, warned", "others, warned", "events before the violation"]
    yield from _table(header, warning_in_advance(rules))
    yield ""
    yield "A rule without a row had fewer than 29 violating sessions, which guarantee no threshold."
    yield "Where nearly all others are warned, too, little before the violation shows that it will come."


def _enforcement() -> Iterator[str]:
    player = _player(Household(), Forgetful(0.05))
    yield from ("", "## Pro2Guard, table 3: unsafe and completed runs", "")
    yield "The paper's logs are not public, so the household below takes their place."
    yield "Its agent forgets each rule with probability 0.05 at each step."
    yield "The guard acts where a solved risk is at least the threshold: it stops the run, or asks again."
    yield ""
    published = {
        (None, False): "40.63 %, 59.38 %",
        **{
            (threshold, False): text
            for threshold, text in zip(
                THRESHOLDS,
                ("2.60 %, 10.42 %", "5.20 %, 20.31 %", "21.35 %, 41.14 %", "29.17 %, 48.96 %"),
                strict=True,
            )
        },
        (0.1, True): "14.07 %, 47.74 %",
    }
    rows: list[list[str]] = []
    cases = [(None, False), *((t, False) for t in THRESHOLDS), *((t, True) for t in THRESHOLDS)]
    for threshold, reflects in cases:
        found = enforced(player, threshold, reflects=reflects)
        kind = "none" if threshold is None else f"{'ask again' if reflects else 'stop'} at {threshold}"
        here = f"{100 * found.unsafe:.2f} %, {100 * found.completed:.2f} %"
        rows.append([kind, published.get((threshold, reflects), "-"), here])
    yield from _table(["guard", "published: unsafe, completed", "here: unsafe, completed"], rows)
    yield ""
    yield from (
        "As in the paper, stopping early is safest and completes least.",
        "Asking again at 0.1 completes at least as much as no guard; at higher thresholds it acts too late.",
    )


def _trac(environments: Sequence[tuple[str, Environment]]) -> Iterator[str]:
    yield from ("", "## TRAC, figures 1 and 2: violations by intervention", "")
    yield "TRAC publishes pictures and no numbers, of language models that are not at hand here."
    yield "Its rules are those of its appendix D.2.1, in other words, and the agents have a stated policy:"
    yield "`random` takes any action."
    yield "`forgetful` forgets each rule with probability 0.3 at each step, and violates none of the others."
    yield f"As in the paper, k is {WITHIN}, m is {SAMPLES}, n is {PROPOSALS} and the threshold {THRESHOLD}."
    yield f"Each figure is the mean of {RUNS} runs of {STEPS} steps with the half width of its 95 % interval."
    yield ""
    players = [
        (f"{name}, {text}", _player(environment, policy))
        for name, environment in environments
        for text, policy in POLICIES
    ]
    rows = [
        [text, *(_mean(violations_a_step(player, choose)) for _, player in players)]
        for text, choose in INTERVENTIONS
    ]
    yield from _table(["violations a step", *(name for name, _ in players)], rows)
    yield ""
    yield "Rules 7 to 9 of the recipe conflict: after cheese, tasting and washing leave no step to serve in."
    yield "TextWorld is one game of it, with six rooms and four ingredients to find, cut and cook."
    yield "Its actions are those that TextWorld's logic admits; `make papers` compares them with its program."
    yield "The game goes on after the meal, so that each run has all its steps."
    yield "Few of its rooms have items, and an agent that leaves the kitchen has little to do wrong."
    yield "A monitor that waits for a risk of 0.5 acts too late where a risk grows from many small ones."
    yield from ("", "## TRAC 4.1: sampled and solved risks", "")
    yield "The Brier skill of a monitor's risks over the rules' rates, on runs without intervention."
    yield "0 is a monitor that knows the rates alone, and a negative skill is worse than that."
    yield ""
    rows = [
        [text, *(f"{_skill(player, samples):+.3f}" for _, player in players)] for text, samples in _SKILLS
    ]
    yield from _table(["skill", *(name for name, _ in players)], rows)


_SKILLS = ((f"{SAMPLES} samples", SAMPLES), ("30 samples", 30), ("solved", None))


def _skill(player: Player, samples: int | None) -> float:
    if samples is None:
        return brier_skill(player, lambda situation: player.solved(situation, WITHIN))
    draw = Random(f"skill {samples}")
    return brier_skill(player, lambda situation: player.sampled(situation, WITHIN, samples, draw))


def _left_out() -> Iterator[str]:
    yield from ("", "## What is not computed here", "")
    yield "- Pro2Guard's figure 2b, the cost of a check at each step, depends on the machine."
    yield "  `benchmarks/prediction/lookups.py` measures a look-up beside a check by Storm."
    yield "  [Performance](performance.md#prediction) has its figures."
    yield "- TRAC's figures of language models need the models that the paper asked."
    yield "- TRAC's table 2 is about judging by models, and not about prediction."


def _player(environment: Environment, policy: Policy) -> Player:
    return Player(environment, policy, RuleMonitor(environment.pack))


def _mean(mean: prevention.Mean) -> str:
    return f"{mean.value:.3f} ± {mean.half:.3f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
