"""The papers' figures: the exact ones, both sets of rules, and solved risks against sampled ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tracline.examples.markov_desk import STEPS
from tracline.examples.papers import prevention
from tracline.examples.papers.agents import Forgetful, Player, Policy, uniform
from tracline.examples.papers.asking import DeskModel, asking
from tracline.examples.papers.enforcement import enforced
from tracline.examples.papers.environments.environment import Action, Environment, RuleMonitor
from tracline.examples.papers.environments.household import ANYWHERE, Household
from tracline.examples.papers.environments.recipe import Recipe
from tracline.examples.papers.page import pro2guard
from tracline.examples.papers.warning import desk_rules, sample_sizes, warning_in_advance

from ...support.http.chat_server import calls, chat_server, spoken

ROOT = Path(__file__).parents[3]

HOUSEHOLD_BROKEN = {
    "water-in-bathroom": "wash",
    "one-wash-a-visit": "walk:bathroom wash wash",
    "sanitize-in-kitchen": "walk:living_room walk:kitchen wait",
    "sanitize-rarely": "sanitize dry wait sanitize",
    "never-idle": "wait wait wait",
    "no-direct-way": "walk:bathroom",
    "living-room-rarely": "walk:living_room walk:kitchen wait walk:living_room",
    "wait-after-drying": "walk:living_room walk:kitchen sanitize dry wait add",
    "taste-what-is-added": "add wait",
    "no-bedroom": "walk:bedroom",
    "dry-after-sanitizing": "sanitize wait",
}
"""Actions that break each rule at the last of them, and not before; `walk:` names the room."""

RECIPE_BROKEN = {
    "boil-three-steps": "boil wait strain",
    "strain-at-once": "boil wait wait taste",
    "never-idle": "wait wait wait",
    "taste-before-serving": "serve",
    "warm-butter": "take:butter add:butter",
    "warm-cheese": "take:cheese add:cheese",
    "taste-what-is-added": "add:onion wait",
    "wash-the-spoon": "taste wait",
    "serve-soon": "take:cheese wait add:cheese taste wash:spoon serve",
}


def solved(rows: list[dict[int, Fraction]]) -> list[Fraction]:
    """Return the probability of coming to the last state, s3, from s0, s1 and s2; what is not there ends."""
    found = [Fraction(0)] * len(rows)
    order = [state for state in range(len(rows)) if _reaches(rows, state)]
    matrix = [
        [Fraction(int(a == b)) - rows[a].get(b, Fraction(0)) for b in order] + [rows[a].get(3, Fraction(0))]
        for a in order
    ]
    for place in range(len(order)):
        pivot = next(line for line in matrix[place:] if line[place])
        matrix.remove(pivot)
        matrix.insert(place, [value / pivot[place] for value in pivot])
        for line in matrix[:place] + matrix[place + 1 :]:
            line[:] = [value - line[place] * by for value, by in zip(line, matrix[place], strict=True)]
    for place, state in enumerate(order):
        found[state] = matrix[place][-1]
    return found


def _reaches(rows: list[dict[int, Fraction]], start: int) -> bool:
    """Return whether a state can come to s3."""
    known, waiting = {start}, [start]
    while waiting:
        new = {after for after in rows[waiting.pop()] if after < 3} - known
        known |= new
        waiting += new
    return any(3 in rows[state] for state in known)


@pytest.mark.slow
def test_no_valid_successors_give_other_values_of_figure_1() -> None:
    """Of all choices with the paper's counts none has 4/29 or 43/87, and four have 353/1047; ours is one."""
    counts: list[dict[int, int]] = [{0: 150, 1: 30}, {4: 30}, {}]
    choices = [
        [
            set(chosen) | row.keys()
            for size in range(6)
            for chosen in combinations(set(range(5)) - row.keys(), size)
        ]
        for row in counts
    ]
    found = Counter[tuple[Fraction, ...]]()
    for valid in product(*choices):
        rows = [
            {after: Fraction(row.get(after, 0) + 1, sum(row.values()) + len(allowed)) for after in allowed}
            for row, allowed in zip(counts, valid, strict=True)
        ]
        found[tuple(solved(rows))] += 1
    assert sum(found.values()) == 4_096
    assert not any(Fraction(4, 29) == s0 or Fraction(43, 87) == s1 for s0, s1, _ in found)
    four = {key: count for key, count in found.items() if key[2] == Fraction(353, 1047)}
    assert four == {(Fraction(43, 1047), Fraction(4, 349), Fraction(353, 1047)): 4}
    assert found[Fraction(14, 349), Fraction(11, 349), Fraction(121, 349)]


def action_of(environment: Environment, state: object, word: str) -> Action:
    """Return the allowed action with that tool and, after a colon, room or item."""
    tool, _, value = word.replace("_", " ").partition(":")
    return next(
        each
        for each in environment.actions(state)
        if each.tool == tool and (not value or value in {dict(each.args).get(k) for k in ("room", "item")})
    )


@pytest.mark.parametrize(
    ("environment", "rule", "words"),
    [
        *((Household(), rule, words) for rule, words in HOUSEHOLD_BROKEN.items()),
        *((Recipe(), rule, words) for rule, words in RECIPE_BROKEN.items()),
    ],
    ids=str,
)
def test_each_rule_is_broken_by_its_actions_at_the_last_of_them(
    environment: Environment, rule: str, words: str
) -> None:
    """The rule is violated at the last action and at none before."""
    monitor, state = RuleMonitor(environment.pack), environment.start()
    assert monitor.rules == tuple(HOUSEHOLD_BROKEN if isinstance(environment, Household) else RECIPE_BROKEN)
    states, found = monitor.first, list[bool]()
    for word in words.split():
        action = action_of(environment, state, word)
        states, violated = monitor.step(states, action)
        state = environment.after(state, action)
        found.append(bool(violated[monitor.rules.index(rule)]))
    assert found == [False] * (len(found) - 1) + [True]


def test_cold_ingredients_are_taken_out_before_they_are_used() -> None:
    """Butter in the fridge can only be taken."""
    environment = Recipe()
    before = {
        each.tool for each in environment.actions(environment.start()) if dict(each.args)["item"] == "butter"
    }
    after = environment.after(environment.start(), Action("take", (("item", "butter"),)))
    assert before == {"take"}
    assert {each.tool for each in environment.actions(after) if dict(each.args)["item"] == "butter"} == {
        "add",
        "put_back",
    }


@pytest.mark.slow
@pytest.mark.parametrize("environment", [Household(), Recipe()], ids=str)
@pytest.mark.parametrize("policy", [uniform, Forgetful()], ids=["uniform", "forgetful"])
def test_solved_risks_are_those_of_all_ways_written_out(environment: Environment, policy: Policy) -> None:
    """Every way of three steps with its probability."""
    player = Player(environment, policy, RuleMonitor(environment.pack))
    ways = [(1.0, player.first(), np.zeros(len(player.monitor.rules), dtype=np.bool_))]
    for _ in range(3):
        ways = [
            (share * each.probability, each.after, violated | each.violated)
            for share, place, violated in ways
            for each in player.options(place)
        ]
    expected = sum(share * violated for share, _, violated in ways)
    assert player.solved(player.first(), 3) == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_sampled_risks_come_near_the_solved_ones() -> None:
    """Each within five standard errors."""
    environment = Household()
    player, samples = Player(environment, uniform, RuleMonitor(environment.pack)), 4_000
    solved = player.solved(player.first(), 3)
    sampled = player.sampled(player.first(), 3, samples, Random(1))
    assert (np.abs(sampled - solved) <= 5 * np.sqrt(solved * (1 - solved) / samples) + 1e-9).all()
    assert solved.max() > 0.1


def test_an_agent_that_forgets_nothing_violates_nothing_that_it_can_avoid() -> None:
    """The probabilities over remembered rules, by hand."""
    options = [np.array(each, dtype=np.bool_) for each in ([1, 0], [0, 1], [0, 0], [0, 0])]
    assert Forgetful(0.0)(options) == [0, 0, 0.5, 0.5]
    assert Forgetful(1.0)(options) == [0.25] * 4
    assert Forgetful(0.5)(options) == pytest.approx([7 / 48, 7 / 48, 17 / 48, 17 / 48])
    assert Forgetful(0.0)([np.array([True]), np.array([True])]) == [0.5, 0.5]


@pytest.mark.slow
def test_the_least_risk_of_all_actions_prevents_what_a_random_agent_violates() -> None:
    """No violation is left."""
    environment = Household()
    player = Player(environment, uniform, RuleMonitor(environment.pack))
    unchecked = prevention.violations_a_step(player, prevention.unchecked, runs=4)
    least = prevention.violations_a_step(player, prevention.least_of_all, runs=4)
    assert unchecked.value > 0.4
    assert least.value == 0


def test_a_guard_that_stops_at_any_risk_completes_nothing() -> None:
    """A threshold of 0 stops every run before its first action."""
    environment = Household()
    player = Player(environment, uniform, RuleMonitor(environment.pack))
    stopped = enforced(player, 0.0, reflects=False, runs=8)
    assert (stopped.unsafe, stopped.completed) == (0, 0)
    assert enforced(player, None, reflects=False, runs=8).unsafe == 1
    assert len(ANYWHERE) == 6


def test_the_page_has_the_exact_figures() -> None:
    """What no drawing enters is computed again; `make papers` writes the rest."""
    assert "\n".join(pro2guard()) in (ROOT / "docs" / "papers.md").read_text()


@pytest.mark.slow
def test_a_real_model_is_asked_and_sampled_where_there_is_one() -> None:
    """At any OpenAI-compatible address: here one that agrees to every risk, and always refunds."""

    def script(messages: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        if "estimate risks" in messages[0]["content"]:
            return spoken('{"markov-desk/agree-first": 0.5, "markov-desk/last-call": 2}')
        return calls("issue_refund", f"c{len(messages)}", amount=40)

    with chat_server(script) as server:
        lines = list(asking(server.address, sessions=3, learned=60))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    found = {(row[0], row[1]) for row in rows}
    assert {("agree-first", "the model asked"), ("last-call", "3 samples of the model")} <= found
    assert ("last-call", "the model asked") not in found
    assert {("find-first", "3 samples"), ("find-first", "10 samples")} <= found


def test_the_desks_agent_takes_the_steps_of_its_policy() -> None:
    """It mostly calls tools at first; where it waits for the customer it is silent."""
    model = DeskModel(Random(1))
    asked = [{"role": "user", "content": STEPS["asks"].text}]
    names = Counter((model(asked).get("content") or "calls") for _ in range(1_000))
    # 70, 3 and 5 per cent are calls, and 22 an offer.
    assert 730 < names["calls"] < 830
    offered = [*asked, {"role": "assistant", "content": STEPS["offers"].text}]
    assert model(offered) == {"content": ""}
    results = Counter(model.answer("find_user_id_by_email", "{}") for _ in range(1_000))
    assert 760 < results["user_17"] < 840


@pytest.mark.slow
def test_the_desks_rules_have_thresholds_and_sample_sizes() -> None:
    """A row for each rule whose threshold has a guarantee; every rule counts for the sample-size rule."""
    rules = desk_rules(2_000)
    table = list(warning_in_advance(rules))
    guaranteed = [rule.counted.rule for rule in rules if rule.thresholds[1].threshold is not None]
    assert [row[0] for row in table] == guaranteed
    assert guaranteed != [rule.counted.rule for rule in rules]
    contexts = sum(len(rule.counted.contexts) for rule in rules)
    assert sample_sizes(rules).startswith(f"{len(rules)} rules with {contexts:,} contexts: H* is reached in ")
