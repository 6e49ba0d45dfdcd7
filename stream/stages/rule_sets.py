"""The compiled rule sets of the monitor, by their texts and by the keys that session states name."""

from __future__ import annotations

import msgspec

from ...archive.chunk import RuleTexts
from ...predict.following.loaded_chains import LoadedChains
from ...rules.engine.judge import compile_rule_set
from ...rules.model.problem import RuleError
from ...rules.model.rule import RuleSet
from ...rules.packs.load import load_texts
from ..error import StreamError
from ..messages.monitor_state import HINT, rules_key
from .rule_set_judge import RuleSetJudge, chain_part, chained_key, judge_of_before
from .schedule import MonitorState, RulesInForce


class RuleSets:
    """A cache of compiled rule sets: every partition asks for them, and compiling takes a second."""

    def __init__(self, *, satisfied: bool, chains: LoadedChains | None = None) -> None:
        self._satisfied, self._chains = satisfied, chains or LoadedChains()
        self._by_key: dict[str, RuleSetJudge] = {}
        self._by_texts: dict[bytes, RuleSetJudge] = {}

    def compiled(self, rules: RulesInForce) -> RuleSetJudge:
        """Return the rule set with its chain. Raises RuleError where it has an error."""
        texts, chain = rules
        written = msgspec.json.encode(texts)
        if written not in self._by_texts:
            judge = RuleSetJudge(compile_rule_set(load_texts(texts)), satisfied=self._satisfied)
            self._by_texts[written] = self._by_key.setdefault(judge.key, judge)
        return self._chained(self._by_texts[written], chain)

    def find(self, key: str, state: MonitorState) -> RuleSetJudge:
        """Return the rule set with that key, from the texts in the table of any partition.

        Raises StreamError (TRL741) where another release wrote its states, or this one cannot use it.
        """
        if key not in self._by_key:
            stored = (state.table.get(rules_key(number, key)) for number in state.partitions)
            texts = next((found for found in stored if found is not None), None)
            try:
                if texts is not None:
                    self._compile_stored(key, msgspec.json.decode(texts, type=RuleTexts))
            except (RuleError, msgspec.MsgspecError):
                problem = "rules that sessions are judged by cannot be used by this release"
                raise StreamError("TRL741", problem, HINT) from None
        if key not in self._by_key:
            raise StreamError("TRL741", "open sessions were labelled by another release", HINT)
        return self._by_key[key]

    def lacking(self, state: MonitorState) -> frozenset[str]:
        """Return the digests of the chains that rules in force name and this process lacks."""
        active = {partition.facts.active for partition in state.partitions.values()}
        found = {self.find(key, state).lacking for key in active if key is not None}
        return frozenset(each for each in found if each is not None)

    def _chained(self, judge: RuleSetJudge, chain: str | None) -> RuleSetJudge:
        """Return the judge of the same rules that a chain follows."""
        if chain is None:
            return judge
        key = chained_key(judge.key, chain)
        if key not in self._by_key:
            compiled = judge.compiled
            followed = self._chains.followed(chain, RuleSet(compiled.rules, {}))
            self._by_key[key] = RuleSetJudge(
                compiled,
                satisfied=self._satisfied,
                chain=followed,
                lacking=chain if followed is None else None,
            )
        return self._by_key[key]

    def _compile_stored(self, key: str, texts: RuleTexts) -> None:
        """Compile the rule set of these packs, as the release before read it where the key is of that one."""
        before = judge_of_before(load_texts(texts), key, satisfied=self._satisfied)
        if before is not None:
            self._by_key[before.key] = before
            self._chained(before, chain_part(key))
        else:
            self.compiled(RulesInForce(texts, chain_part(key)))

    def resume(self, state: MonitorState, number: int) -> None:
        """Compile the rule set in force of a restored partition.

        An earlier release may have written another version of the semantics in its key. The next message then
        activates the rules again, unless a session is open: its labels are those of the earlier release.
        """
        partition = state.partitions[number]
        key = partition.facts.active
        if key is None:
            return
        try:
            self.find(key, state)
        except StreamError:
            texts = state.table.get(rules_key(number, key))
            if texts is None or texts not in self._by_texts or partition.schedule.due:
                raise
            partition.resumed = RulesInForce(msgspec.json.decode(texts, type=RuleTexts), chain_part(key))
            partition.facts = msgspec.structs.replace(partition.facts, active=None)
