"""Expected errors of prediction: a code, the file and line, what is wrong, and a hint."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TRL801": "a folder that is no chain, or one of another release",
    "TRL802": "files of a chain that do not match its `chain.json`",
    "TRL803": "rules that a chain was not learned from",
    "TRL806": "too few sessions to learn a chain from",
    "TRL807": "a file that is not a Markov chain of a known format",
    "TRL808": "rows of a chain that are no probabilities",
    "TRL809": "a label that no state of a chain has",
    "TRL810": "a chain or product that is too large",
    "TRL811": "a chain that does not fit the sessions held out",
    "TRL812": "an archive with symbols that a chain never saw",
    "TRL821": "an answer of a model that cannot be used",
    "TRL822": "forecasts that cannot be scored",
}
"""The codes of prediction; a test triggers each."""


class PredictError(Exception):
    """An error of a chain: `str(error)` is `where: CODE what`, with the hint on a separate line."""

    def __init__(self, code: str, where: str, what: str, hint: str) -> None:
        assert code in CODES, f"{code} is not in the table of codes"
        super().__init__(f"{where}: {code} {what}\n  hint: {hint}")
        self.code = code
        self.where = where
        self.what = what
        self.hint = hint
