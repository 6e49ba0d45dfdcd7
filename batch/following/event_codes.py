"""Numbers of the distinct events of an archive, as the rules of a chain read them, over all its buckets."""

from __future__ import annotations

import numpy as np

from ...predict.counting.labelled_sessions import DistinctEvents
from ...rules.engine.judge import CompiledRules, Judged, columns_at
from ...rules.engine.kernel_loop import numbered
from ...rules.engine.letters import LabelWords, letters
from ...rules.labels.joint.joint_columns import JointColumns
from ...rules.model.arrays import I32, I64, Mask
from ...schemas.event import Kind

_KINDS = tuple(kind.value for kind in Kind)


class EventCodes:
    """The codes of distinct pairs of joint label words and a kind, from 0 in the order of their discovery.

    `compiled` are the rules of the chain, whose labels are the second ones of `joint`.
    """

    def __init__(self, joint: JointColumns, compiled: CompiledRules) -> None:
        self._joint, self._compiled = joint, compiled
        self._codes: dict[tuple[bytes, int], int] = {}

    def numbered(self, judged: Judged, over: Mask) -> tuple[I32, DistinctEvents]:
        """Return the code of each event of a bucket, undefined where it is `over`, and the new events."""
        words, word_codes = self._joint_words(judged)
        kinds = judged.column("kind").to_physical().to_numpy()
        pairs = word_codes.astype(np.int64) * len(_KINDS) + kinds
        is_used = np.zeros(len(words.true) * len(_KINDS), dtype=np.bool_)
        is_used[pairs[~over] if over.any() else pairs] = True
        used = np.flatnonzero(is_used)
        bits = np.ascontiguousarray(np.hstack([words.true, words.unknown]))
        keys = [(bits[pair // len(_KINDS)].tobytes(), pair % len(_KINDS)) for pair in used.tolist()]
        known = len(self._codes)
        codes = np.zeros(len(is_used), dtype=np.int32)
        codes[used] = [self._codes.setdefault(key, len(self._codes)) for key in keys]
        return codes[pairs], self._events(words, used[codes[used] >= known])

    def _joint_words(self, judged: Judged) -> tuple[LabelWords, I32]:
        """Return the distinct joint words of a bucket, and the number of each event's word."""
        words, names = judged.words, self._joint.more_words
        if not names:
            return words, judged.codes
        more = columns_at(judged.labelled, names, judged.order.rows).to_numpy()
        rows = np.column_stack([judged.codes.astype(np.uint64), more])
        codes, firsts = numbered(np.ascontiguousarray(rows))
        first, middle = judged.codes[firsts], len(names) // 2
        true = np.hstack([words.true[first], more[firsts, :middle]])
        return LabelWords(true, np.hstack([words.unknown[first], more[firsts, middle:]])), codes

    def _events(self, words: LabelWords, pairs: I64) -> DistinctEvents:
        """Return the events of pairs of a word and a kind, with the letters of the chain's rules."""
        places = pairs // len(_KINDS)
        true, unknown = (self._joint.second_words(each[places]) for each in (words.true, words.unknown))
        compiled, found = self._compiled, LabelWords(true, unknown)
        kinds: list[int] = (pairs % len(_KINDS)).tolist()
        rules = compiled.rules, compiled.machines, compiled.propositions
        return DistinctEvents(
            found,
            letters(compiled.program, *rules, found),
            np.arange(len(pairs), dtype=np.int32),
            tuple(_KINDS[kind] for kind in kinds),
        )
