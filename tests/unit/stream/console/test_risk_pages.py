"""The API of risks and the pages with risks, over a store that is filled by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from starlette.applications import Starlette
from tracline.predict.detector import DetectorState
from tracline.predict.drift.detectors import DriftDetector, DriftKey
from tracline.predict.folder.load import load_chain
from tracline.predict.following.followed_chain import followed_chain
from tracline.rules.engine.judge import CompiledRules, compile_rule_set
from tracline.rules.incremental.carried_slices import CarriedSlices, SteppedSlice, slice_name
from tracline.rules.packs.load import load_packs
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.stream.console import pages, queries
from tracline.stream.console.risks import ServedChain
from tracline.stream.messages.drift_state import encode_detectors
from tracline.stream.messages.session_state import (
    JudgingState,
    SessionState,
    encode,
    encode_places,
    encode_with_places,
    store_pages,
)
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from ....support.chains.small_chain import learned_chain
from ....support.console_store import fill, session, user, writing
from .asking import app, get, plain

OPEN = session("open", user("q"), user("p"), user("q"), user("p"), end=False)
CLOSED = session("closed", user("p"), user("p"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[CompiledRules, ServedChain]:
    """The rules of a small chain, and the chain."""
    folder = tmp_path_factory.mktemp("chain")
    learned = load_chain(learned_chain(folder))
    rules = load_packs([folder / "desk.yaml"])
    return compile_rule_set(rules), ServedChain(learned, followed_chain(learned, rules, 0.3))


@pytest.fixture
def console(served: tuple[CompiledRules, ServedChain], store: Path) -> Starlette:
    """The console over an open session that the chain follows, and a closed one."""
    compiled, chain = served
    fill(store, compiled, [OPEN, CLOSED])
    judge = RuleSetJudge(compiled, chain=chain.followed)
    state = judge.judge({"open": JudgingState()}, [OPEN]).states["open"]
    data = encode(SessionState(SessionAssembler("open", 1), state))
    with writing(store) as db:
        db.execute("INSERT INTO session VALUES ('open', 1, 1, ?, x'')", (data,))
    return Starlette(routes=pages.routes(store, compiled, chain=chain))


@pytest.mark.slow
def test_the_api_has_the_risks_that_the_chain_gives(
    console: Starlette, served: tuple[CompiledRules, ServedChain]
) -> None:
    """Each rule has the chain's risk of its context, the interval, and the likeliest ways to a verdict."""
    answer = get(console, "/api/sessions/open/risk").json()
    learned = served[1].learned
    assert answer["chain"] == learned.digest
    assert {each["rule"] for each in answer["rules"]} == {"answered", "never-twice"}
    for each in answer["rules"]:
        assert each["symbol"] == "user:p"
        assert each["basis"] == "context"
        risks = [
            learned.risk("desk", each["rule"], symbol="user:p", state=state, within=each["within"])
            for state in range(4)
        ]
        known = [(risk.risk, risk.low, risk.high, risk.sessions) for risk in risks if risk is not None]
        assert (each["risk"], each["low"], each["high"], each["sessions"]) in known
        found = [path["probability"] for path in each["paths"]]
        assert found == sorted(found, reverse=True)
        assert sum(found) == pytest.approx(each["covered"] * each["risk"], abs=1e-8)
    twice = next(each for each in answer["rules"] if each["rule"] == "never-twice")
    assert twice["paths"][0]["steps"][-1]["symbol"].startswith("user:p")


@pytest.mark.slow
@pytest.mark.parametrize("by", ["agent", "model"])
def test_a_chain_that_distinguishes_agents_explains_the_risk_of_any_other(
    tmp_path: Path, store: Path, by: str
) -> None:
    """Its live risks are those of any other agent, also after a symbol that it never saw."""
    learned = load_chain(learned_chain(tmp_path, "--by", by))
    rules = load_packs([tmp_path / "desk.yaml"])
    compiled = compile_rule_set(rules)
    chain = ServedChain(learned, followed_chain(learned, rules, 0.3))
    known, unseen = session("known", user("q"), user("p"), end=False), session("new", user("pq"), end=False)
    fill(store, compiled, [known, unseen])
    judge = RuleSetJudge(compiled, chain=chain.followed)
    with writing(store) as db:
        for name, events in (("known", known), ("new", unseen)):
            state = judge.judge({name: JudgingState()}, [events]).states[name]
            data = encode(SessionState(SessionAssembler(name, 1), state))
            db.execute("INSERT INTO session VALUES (?, 1, 1, ?, x'')", (name, data))
    served = Starlette(routes=pages.routes(store, compiled, chain=chain))
    for name in ("known", "new"):
        answers = get(served, f"/api/sessions/{name}/risk?paths=100").json()["rules"]
        assert {each["rule"] for each in answers} == {"answered", "never-twice"}
        for each in answers:
            assert each["symbol"] == ("user:p" if name == "known" else "unseen")
            assert (each["basis"] == "state") == (name == "new")
            found = [path["probability"] for path in each["paths"]]
            assert sum(found) == pytest.approx(each["covered"] * each["risk"], abs=1e-8)
            assert each["covered"] > 0.5


@pytest.mark.parametrize(("asked", "most"), [("0", 0), ("1", 1), ("99999999999999999999", 3), ("5000", 100)])
def test_the_paths_of_an_answer_have_a_limit(console: Starlette, asked: str, most: int) -> None:
    """Whatever is asked for, there are at most a hundred, and an unreadable number is as none."""
    for each in get(console, f"/api/sessions/open/risk?paths={asked}").json()["rules"]:
        assert len(each["paths"] or ()) <= most


def test_a_closed_session_has_no_risk_and_an_unknown_one_no_answer(console: Starlette) -> None:
    """The close ends all risks; hostile ids are text."""
    assert get(console, "/api/sessions/closed/risk").json()["rules"] == []
    for name in ("nobody", "%3Cscript%3E", "..%2F..", "' OR 1=1 --"):
        answer = get(console, f"/api/sessions/{name}/risk")
        assert answer.status_code == 404
        assert "no such session" in answer.json()["error"]
        assert answer.headers["content-security-policy"]


@pytest.mark.slow
def test_the_page_of_a_session_names_the_rules_that_have_drifted(
    console: Starlette, served: tuple[CompiledRules, ServedChain], store: Path
) -> None:
    """Those of the risks that it shows, open or closed; nothing while no detector fires."""
    note = "come more often than the chain allows"
    assert note not in plain(get(console, "/sessions/open").text)
    digest = served[1].learned.digest
    fires, silent = (DriftDetector(0, 0, 0, (0,) * 4, DetectorState(firing=each)) for each in (True, False))
    detectors = {
        DriftKey(digest, "desk", "never-twice", ""): fires,
        DriftKey(digest, "desk", "answered", ""): silent,
        DriftKey(digest, "desk", "of-another-session", ""): fires,
    }
    with writing(store) as db:
        db.execute("INSERT OR REPLACE INTO fact VALUES ('drift', ?)", (encode_detectors(detectors),))
    for path in ("/sessions/open", "/sessions/closed"):
        text = plain(get(console, path).text)
        assert note in text
        assert "any more for desk/never-twice. Learn the chain again." in text


def test_the_pages_of_a_state_are_read(served: tuple[CompiledRules, ServedChain], store: Path) -> None:
    """A followed session with many slices has some of them in rows of their own."""
    compiled, chain = served
    judge = RuleSetJudge(compiled, chain=chain.followed)
    judging = judge.judge({"open": JudgingState()}, [OPEN]).states["open"]
    stepped = [SteppedSlice(slice_name(0, f"v{n}"), None, 0, b"runs", ()) for n in range(40)]
    followed = msgspec.structs.replace(judging.followed, sliced=CarriedSlices().after({}, stepped))
    state = SessionState(SessionAssembler("open", 1), msgspec.structs.replace(judging, followed=followed))
    new = store_pages(state, 3, bytes, 1 << 20)
    assert new
    data, places = encode_with_places(state)
    fill(store, compiled, [OPEN])
    with writing(store) as db:
        db.execute("INSERT INTO session VALUES ('open', 1, 1, ?, ?)", (data, encode_places(places)))
        rows = [("open", place.offset, place.number, page) for place, page in new]
        db.executemany("INSERT INTO page VALUES (?, ?, ?, ?)", rows)
        found = queries.followed(db, "open")
        assert found == followed
        assert queries.followed(db, "nobody") is None


@pytest.mark.slow
def test_without_a_chain_there_is_no_risk(served: tuple[CompiledRules, ServedChain], store: Path) -> None:
    """The answer names the option, and the pages have no such section."""
    console = app(fill(store, served[0], [OPEN, CLOSED]), served[0])
    answer = get(console, "/api/sessions/open/risk")
    assert (answer.status_code, "--predict" in answer.json()["error"]) == (404, True)
    for path in ("/sessions/open", "/rules/desk/answered", "/"):
        assert "Risk" not in plain(get(console, path).text)


@pytest.mark.slow
def test_a_session_without_state_is_not_followed(console: Starlette, store: Path) -> None:
    """A session that began before the chain was loaded has no risk now, and its page states so."""
    with writing(store) as db:
        db.execute("DELETE FROM session")
    text = plain(get(console, "/sessions/open").text)
    assert "the chain does not follow this session" in text
    assert "risk within 5 events, at most" in text
    assert get(console, "/api/sessions/open/risk").json()["rules"] == []
