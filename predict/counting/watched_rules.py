"""The rules that a chain is learned for, and the propositions and memory formulas of their packs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import orjson

from ...rules.engine.judge import CompiledRules, compile_rule_set
from ...rules.engine.kernel import LetterTable
from ...rules.engine.letters import LabelWords, letters
from ...rules.labels.few import WORD_BITS
from ...rules.model.formula import TRUE
from ...rules.model.machine import Machine
from ...rules.model.predicate import Predicate
from ...rules.model.rule import PackMemory, Rule, RuleSet
from ...schemas.verdict import Unknown
from ..chain.steps import StepTable
from ..error import PredictError
from .memory_machine import MemoryMachine, judged_as, memory_machine
from .step_rows import StepRows, SymbolLetters
from .symbols import symbol_parts, symbol_text


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

    def fingerprint(self, rule: int) -> str:
        """Return the SHA-256 of the machines of a rule and its memory: they number the states of a chain."""
        order: list[int] = self.compiled.program.order.tolist()
        numbers = [rule, *(order[column] for column, _ in self.memory[self.rules[rule].pack])]
        machines = [self.compiled.machines[number] for number in numbers]
        return sha256(orjson.dumps([_tables(machine) for machine in machines])).hexdigest()

    def step_table(self, rule: int, symbols: Sequence[str]) -> StepTable:
        """Return the step table of a rule over the symbols of a chain that was learned for it.

        Raises PredictError (TRL803) where the rule does not read one of them: they are those of other rules.
        """
        subject, bits = self.rules[rule], self.bits[self.rules[rule].pack]
        parts = [symbol_parts(text) for text in symbols]
        true = np.zeros((len(parts), self.compiled.labeler.words), dtype=np.uint64)
        unknown = np.zeros_like(true)
        for place, each in enumerate(parts):
            for words, names in ((true, each.true), (unknown, each.unknown)):
                for name in names & bits.keys():
                    words[place, bits[name] // WORD_BITS] |= np.uint64(1 << bits[name] % WORD_BITS)
        compiled = self.compiled
        program, machines, numbers = compiled.program, compiled.machines, compiled.propositions
        table = letters(program, compiled.rules, machines, numbers, LabelWords(true, unknown))
        found: list[SymbolLetters] = []
        for place, each in enumerate(parts):
            read = self.letters(rule, table, place)
            if each.letters is not None:
                read = SymbolLetters.of_text(each.letters, each.is_own)
            if read is None or not (each.true | each.unknown) <= bits.keys():
                what = f"{subject.pack}/{subject.id} cannot read the symbol `{symbols[place]}`"
                raise PredictError("TRL803", "chain", what, "learn the chain again from these rules")
            found.append(read._replace(is_own=each.is_own))
        return self.steps(rule).table(found)

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


def _tables(machine: Machine) -> list[object]:
    closings = [None if verdict is None else verdict.value for verdict in machine.closing]
    return [machine.propositions, machine.letters.hex(), machine.next, machine.output, closings]


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
