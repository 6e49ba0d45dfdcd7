"""The rules that a chain is learned for, and the propositions and memory formulas of their packs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...rules.engine.judge import CompiledRules, compile_rule_set
from ...rules.engine.kernel import LetterTable
from ...rules.engine.letters import LabelWords
from ...rules.model.formula import TRUE
from ...rules.model.predicate import Predicate
from ...rules.model.rule import PackMemory, Rule, RuleSet
from ...schemas.verdict import Unknown
from .memory_machine import MemoryMachine, judged_as, memory_machine
from .step_rows import StepRows, SymbolLetters
from .symbols import symbol_text


@dataclass(frozen=True)
class WatchedRules:
    """Rules with the memory formulas of their packs, compiled together.

    `compiled` has the `rules` first, by number. `columns[rule]` is the column of a rule in the program, and
    `memory[pack]` has the columns and machines of the memory formulas. `bits[pack]` are the propositions of a
    pack's symbols.
    """

    rules: tuple[Rule, ...]
    compiled: CompiledRules
    columns: tuple[int, ...]
    memory: Mapping[str, tuple[tuple[int, MemoryMachine], ...]]
    bits: Mapping[str, Mapping[str, int]]

    def steps(self, rule: int) -> StepRows:
        """Return an empty step table of a rule."""
        subject = self.rules[rule]
        machines = [machine for _, machine in self.memory[subject.pack]]
        where = f"{subject.pack}/{subject.id}"
        return StepRows(self.compiled.machines[rule], machines, subject.for_each is not None, where)

    def symbols(self, pack: str, words: LabelWords, places: Sequence[int], kinds: Sequence[str]) -> list[str]:
        """Return the pack's symbol of events with these words and kinds."""
        bits = self.bits[pack]
        return [
            symbol_text(kind, words.true_at(place, bits), words.unknown_at(place, bits))
            for place, kind in zip(places, kinds, strict=True)
        ]

    def letters(self, rule: int, table: LetterTable, word: int) -> SymbolLetters | None:
        """Return the letters of a rule and its memory at a word, or None where the rule does not see it."""
        program, column = self.compiled.program, self.columns[rule]
        letter = int(table.letters[word, column])
        if letter == program.skip[column]:
            return None
        read: tuple[int | None, ...] = (letter,)
        if letter == program.unknown[column]:
            read = ()
        elif several := table.several(program, word, column):
            read = tuple(None if each == program.skip[column] else each for each in several)
        memory = tuple(
            table.several(program, word, place) or (int(table.letters[word, place]),)
            for place, _ in self.memory[self.rules[rule].pack]
        )
        return SymbolLetters(read, memory if read else (), False)


def watch(rule_set: RuleSet) -> WatchedRules:
    """Compile the rules of a set for learning, with the memory formulas of their packs.

    Raises RuleError where a rule or a memory formula exceeds a limit of the compiler.
    """
    packs = tuple(dict.fromkeys(rule.pack for rule in rule_set.rules))
    given = {pack: rule_set.memory.get(pack, PackMemory()) for pack in packs}
    memory = [judged_as(rule) for pack in packs for rule in given[pack].memory]
    others = [_labelled(pack, given[pack].propositions) for pack in packs]
    compiled = compile_rule_set(replace(rule_set, rules=(*rule_set.rules, *memory, *others)))
    order: list[int] = compiled.program.order.tolist()
    column = {number: place for place, number in enumerate(order)}
    machines: dict[str, list[tuple[int, MemoryMachine]]] = {pack: [] for pack in packs}
    for number, rule in enumerate(memory, len(rule_set.rules)):
        found = memory_machine(rule.id, compiled.machines[number])
        machines[rule.pack].append((column[number], found))
    return WatchedRules(
        rules=rule_set.rules,
        compiled=compiled,
        columns=tuple(column[number] for number in range(len(rule_set.rules))),
        memory={pack: tuple(found) for pack, found in machines.items()},
        bits={
            pack: {name: bit for (owner, name), bit in compiled.propositions.items() if owner == pack}
            for pack in packs
        },
    )


def _labelled(pack: str, propositions: Mapping[str, Predicate]) -> Rule:
    """Return a rule that reads these propositions and never fails, so that events are labelled with them."""
    return Rule(pack, "propositions", "", TRUE, "true", propositions=dict(propositions), unknown=Unknown.STOP)
