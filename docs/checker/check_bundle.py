#!/usr/bin/env python3
"""Check the bundle of an audit without tracline: `python3 check_bundle.py BUNDLE`.

The script derives each `violated` and `unmet` verdict from `certificates.jsonl`, twice: by the table of the
rule's machine, and by the meaning of the rule's formula, so that nobody has to trust the compiler. It counts
apart what only the table shows. It also checks the digests of the rules, the ids of the verdicts, and the
files that `attestation.json` lists, but not its signature, nor that the labels are those of the texts.
docs/bundle.md describes the files. Exit code 0: all holds; 1: something does not; 2: unreadable bundle.
"""

import base64
import collections
import copy
import hashlib
import itertools
import json
import pathlib
import sys

SLICES_MAX = 1000  # slices of a rule in one session
TRIED_MAX = 6  # unknown propositions of a rule at an event whose completions are tried one by one
NO_VALUE, UNKNOWN_VALUE = -1, -2
NO, MAYBE, YES = 0, 1, 2  # truth where labels are unknown: `and` is min, `or` is max, `not x` is 2 - x
PENDING, VIOLATED, SATISFIED, STAYS = 0, 1, 2, 2  # `output % 8`; a code that repeats a verdict is STAYS more
FUTURE = {"next", "weak_next", "eventually", "always", "until", "weak_until", "release", "strong_release"}
ENDS_FALSE = {"next", "eventually", "until", "strong_release"}  # false behind the end of a session
PAST = {"previous", "weak_previous", "once", "historically", "since", "weak_since", "at_most"}


class Refused(Exception):
    """A statement of the bundle that does not follow."""


def require(holds, text):
    """Refuse the bundle unless a condition holds."""
    if not holds:
        raise Refused(text)


def digest(text):
    """Return the SHA-256 of a text, or of the canonical JSON (RFC 8785) of texts, nulls and lists of them."""
    if not isinstance(text, str):
        text = json.dumps(text, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def parts(formula):
    """Return the operator, the bounds or None, and the operands; a formula may be a name without these."""
    op, *rest = [formula] if isinstance(formula, str) else formula
    bounded = bool(rest) and isinstance(rest[0], list) and isinstance(rest[0][0], int)
    return (op, rest[0], rest[1:]) if bounded else (op, None, rest)


def nodes(formulas):
    """Yield all nodes of formulas, operands first."""
    for formula in formulas:
        yield from nodes(parts(formula)[2])
        yield formula


def words(*formulas):
    """Return the names and operators in formulas; no operator is a name."""
    return {parts(node)[0] for node in nodes(formulas)}


def boolean(op, values, exchanged):
    """Return the value of a Boolean operator; `exchanged` are the operands' values under `not`."""
    if op in ("not", "->"):
        return max([2 - exchanged[0], *values[1:]])
    if op == "<->":
        return max(min(values), 2 - max(exchanged))
    require(op in ("true", "false", "and", "or"), f"unknown operator {op}")
    return min([YES, *values]) if op in ("true", "and") else max([NO, *values])


def kleene(formula, truth):
    """Return the value of a Boolean formula over propositions."""
    if isinstance(formula, str):
        return truth[formula]
    values = [kleene(operand, truth) for operand in formula[1:]]
    return boolean(formula[0], values, values)


class Rule:
    """The line of a rule: its content, which the digest binds, and its machine, which nothing binds."""

    def __init__(self, line):
        self.content, self.machine = line["content"], line["machine"]
        self.letters = base64.b64decode(self.machine["letters"])
        self.formula, self.bits = self.content["formula"], self.content["transitions"]
        self.asked = words(self.formula, *self.bits.values(), self.content["applies_to"] or self.formula)
        every = [node for node in nodes([*self.bits.values(), self.formula]) if not isinstance(node, str)]
        self.settled = {id(node): node for node in every if FUTURE.isdisjoint(words(node))}
        # An invariant's body is judged at each event. It has no future but one outermost `always`.
        op, bounds, operands = parts(self.formula)
        body = operands[0] if op in ("always", "historically") and bounds is None else self.formula
        looks_back = not words(self.formula).isdisjoint({*PAST, *self.bits})
        self.body = body if looks_back and FUTURE.isdisjoint(words(body)) else None

    def readings(self, truth):
        """Return the letters that an event may have, None if the rule may not see it; none: the rule stops."""

        def letter(known):
            word = sum(known[name] // YES << i for i, name in enumerate(self.machine["propositions"]))
            return self.letters[word]

        steps, unknown = self.content["steps"], [name for name in truth if truth[name] == MAYBE]
        if self.content.get("unknown", "stop") == "stop":
            seen = YES if steps is None else kleene(steps, truth)
            stops = seen == MAYBE or not self.asked.isdisjoint(unknown)
            return {None} if seen == NO else set() if stops else {letter(truth)}
        if len(unknown) > TRIED_MAX:
            return {*self.letters, *([] if steps is None else [None])}
        combinations = itertools.product((NO, YES), repeat=len(unknown))
        tried = [{**truth, **dict(zip(unknown, values, strict=True))} for values in combinations]
        return {letter(known) if steps is None or kleene(steps, known) else None for known in tried}


class Run:
    """A run over the events of a slice: the machine's states, and the first place of the pending instance.

    `start` is None where that depends on what is unknown, and `blind` is true where the events seen do.
    """

    def __init__(self, rule):
        self.rule, self.states, self.truths, self.known, self.last = rule, {0}, [], {}, None
        self.start, self.blind, self.final, self.after_satisfied = 0, False, False, False

    def step(self, event, letters, truth):
        """Step over an event; return the verdict there, and whether the meaning shows it."""
        machine, self.last = self.rule.machine, event
        moves = [(state, letter) for state in self.states for letter in letters]
        codes = {PENDING if letter is None else machine["output"][s][letter] % 8 for s, letter in moves}
        self.states = {s if letter is None else machine["next"][s][letter] for s, letter in moves}
        verdict = next((v for v in (VIOLATED, SATISFIED) if v in codes and codes <= {v, v + STAYS}), PENDING)
        self.blind = self.blind or None in letters
        self.start = None if self.blind else self.start
        self.truths.append(truth)
        end = len(self.truths)
        for node in self.rule.settled.values():
            self.now(node, end - 1)
        meant = self.meant(end) if verdict or self.rule.body is not None else {PENDING}
        require(self.start is None or verdict in meant, "a verdict contradicts the formula, or is missing")
        if len(codes) > 1:
            self.start = None
        elif verdict:
            require(PENDING in self.meant(end - 1), "a verdict is late")
            recover = self.rule.content["recover"]
            self.final = recover == "none" or (recover == "violation" and verdict == SATISFIED)
            self.start, self.after_satisfied = None if self.blind else end, verdict == SATISFIED
        return verdict, meant == {verdict}

    def meant(self, end):
        """Return the verdicts that the formula allows after the events before the place `end`."""
        if self.start is None or self.start >= end:
            return {PENDING, VIOLATED, SATISFIED}
        if self.final:
            return {PENDING}
        if self.rule.body is not None:
            value = self.now(self.rule.body, end - 1)
            return {VIOLATED} if value == NO else {PENDING} if value == YES else {PENDING, VIOLATED}
        if self.values(self.rule.formula, end, YES)[0] == NO:
            return {VIOLATED}
        is_satisfied = self.values(self.rule.formula, end, NO)[0] == YES
        return {SATISFIED} if is_satisfied else {PENDING, VIOLATED, SATISFIED}

    def close(self):
        """Return whether the closing verdict is `unmet`, and whether the meaning shows it."""
        closings, end = {self.rule.machine["closing"][state] for state in self.states}, len(self.truths)
        is_unmet = closings == {"unmet"}
        if self.start is None:
            return is_unmet, False
        require(PENDING in self.meant(end), "a verdict is missing")
        is_pending = self.rule.body is None and not self.final and self.start < end
        value = self.values(self.rule.formula, end, None)[0] if is_pending else YES
        follows = value != YES if is_unmet else value != NO or self.after_satisfied
        require(follows, "`unmet` contradicts the formula, or is missing")
        return is_unmet, value == NO

    def now(self, formula, at):
        """Return the value at a place of a formula that does not look ahead; earlier values are known."""
        if isinstance(formula, str):
            bit = self.rule.bits.get(formula)
            return self.truths[at][formula] if bit is None else self.now(bit, at)
        if (at, id(formula)) in self.known:
            return self.known[at, id(formula)]
        op, bounds, operands = parts(formula)
        values = [self.now(operand, at) for operand in operands]
        first, best = (YES, min) if op in ("weak_previous", "historically", "weak_since") else (NO, max)
        if op not in PAST:
            value = boolean(op, values, values)
        elif op == "at_most":
            low, high = (sum(self.now(operands[0], i) >= v for i in range(at + 1)) for v in (YES, MAYBE))
            value = NO if low > bounds[1] else YES if high <= bounds[1] else MAYBE
        elif bounds or op in ("previous", "weak_previous"):
            low, high = bounds or (1, 1)
            places = range(max(0, at - high), at - low + 1)
            value = best([first, *(self.now(operands[0], i) for i in places)])
        else:
            before = self.now(formula, at - 1) if at else first
            value = best(before, values[0]) if len(values) == 1 else max(values[1], min(values[0], before))
        self.known[at, id(formula)] = value
        return value

    def values(self, formula, end, behind):
        """Return the values of a formula from the pending instance's start on, by the events before `end`.

        `behind` is the value of every formula after them; None: the session ends there.
        """
        if isinstance(formula, str) or id(formula) in self.rule.settled:
            return [self.now(formula, at) for at in range(self.start, end)]
        op, bounds, operands = parts(formula)
        found = [self.values(operand, end, behind) for operand in operands]
        if op not in FUTURE:
            other = None if behind is None else 2 - behind
            exchanged = [self.values(operand, end, other) for operand in operands]
            return [
                boolean(op, *at)
                for at in zip(zip(*found, strict=True), zip(*exchanged, strict=True), strict=True)
            ]
        last = behind if behind is not None else NO if op in ENDS_FALSE else YES
        best, size, values = max if op in ("next", "eventually") else min, end - self.start, []
        if bounds or op in ("next", "weak_next"):
            low, high = bounds or (1, 1)
            reached = [found[0][i + low : i + high + 1] + [last] * (i + high >= size) for i in range(size)]
            return [*map(best, reached)]
        for at in reversed(range(size)):
            p, q = YES if op == "eventually" else NO if op == "always" else found[0][at], found[-1][at]
            is_until = op in (
                "eventually",
                "until",
                "weak_until",
            )  # p until q  =  q or (p and next (p until q))
            last = max(q, min(p, last)) if is_until else min(q, max(p, last))
            values.append(last)
        return values[::-1]


def derive(rule, pack, head, session):
    """Yield the violated and unmet verdicts of a rule in a session: event, slice, verdict, and if meaning shows it."""
    content, key = rule.content, None
    if content["for_each"] is not None:
        key = head["keys"].index(content["for_each"])
    numbers = {name: head["propositions"].index([pack, name]) for name in content["propositions"]}
    truths = [
        {name: YES if bit in true else MAYBE if bit in unknown else NO for name, bit in numbers.items()}
        for true, unknown in session["words"]
    ]
    letters, plain, slices = [*map(rule.readings, truths)], Run(rule), {}
    for event in session["events"]:
        read, value = letters[event[2]], NO_VALUE if key is None else event[3 + key]
        if read == {None}:
            continue
        begins = value >= 0 and value not in slices
        if not read or value == UNKNOWN_VALUE or (begins and (len(slices) == SLICES_MAX or None in read)):
            return
        if begins:
            slices[value] = run = copy.copy(plain)
            run.truths, run.known = [*plain.truths], {**plain.known}
        for number, run in [(value, slices[value])] if value >= 0 else [(None, plain), *slices.items()]:
            verdict, is_shown = run.step(event, read, truths[event[2]])
            if verdict == VIOLATED and not (run is plain and slices):
                yield event, None if number is None else session["values"][key][number], "violated", is_shown
    for number, run in [(None, plain)] if key is None else slices.items():
        is_unmet, is_shown = run.close() if run.last and session["closed"] else (False, False)
        if is_unmet:
            yield run.last, None if number is None else session["values"][key][number], "unmet", is_shown


def verdict_id(*members):
    """Return the id of a verdict by its rule, place, slice, event and verdict."""
    return digest(["tracline/1", *members])[:32]


def certified(folder, shown):
    """Return the verdicts that follow by place and id, the rules, the head and the end; count how each is shown."""
    lines = (folder / "certificates.jsonl").open(encoding="utf-8", newline="\n")
    head, rules, found, begin = json.loads(next(lines)), {}, {}, len('{"content":')
    for text in lines:
        line = json.loads(text)
        if line["kind"] == "rule":
            content = text[begin : json.JSONDecoder().raw_decode(text, begin)[1]]
            require(digest(content) == line["rule_digest"], f"rule {line['rules']} has another digest")
            rules |= {(pack, name, line["rule_digest"]): Rule(line) for pack, name in line["rules"]}
        elif line["kind"] == "session":
            place, events = (line["session_id"], line["occurrence"]), line["events"]
            is_ordered = all(one[0] < two[0] for one, two in itertools.pairwise(events))
            require(
                is_ordered and len({event[1] for event in events}) == len(events), f"{place}: events repeat"
            )
            members = head["rule_sets"][line["rule_set"]] if head["rule_sets"] else rules
            for key in [(*member[:2], member[-1]) for member in members]:
                for event, value, verdict, is_shown in derive(rules[key], key[0], head, line):
                    found.setdefault(place, {})[verdict_id(*key, *place, value, event[1], verdict)] = event[0]
                    shown["by meaning" if is_shown else "table only"] += 1
    return found, rules, head, line


def check(folder):
    """Return what was checked of a bundle, as texts. Raises Refused where something does not follow."""
    shown, listed, ids = collections.Counter(), {}, 0
    found, rules, head, end = certified(folder, shown)
    names = ("pack", "rule", "rule_digest", "session_id", "occurrence", "slice", "event_id", "verdict")
    for line in map(json.loads, (folder / "verdicts.jsonl").open("rb")):
        require(line["id"] == verdict_id(*map(line.get, names)), f"verdict {line['id']} has another id")
        ids += 1
        if line["verdict"] in ("violated", "unmet"):
            listed.setdefault((line["session_id"], line["occurrence"]), {})[line["id"]] = line["seq"]
    for place, verdicts in found.items():
        stated, is_cut = listed.get(place, {}), head["since"] or head["until"]
        differ = stated.items() - verdicts.items() if is_cut else stated.items() ^ verdicts.items()
        require(not differ, f"session {place}: verdicts that do not follow, or are missing: {sorted(differ)}")
    left_out = [verdicts for place, verdicts in listed.items() if place not in found]
    counts = {"sessions": len(left_out), "verdicts": sum(map(len, left_out))}
    require(end["left_out"] == counts, f"{counts} have no certificate, the end states {end['left_out']}")
    for rule_set, members in head["rule_sets"].items():
        require(
            digest(["tracline-rule-set/1", members]) == rule_set, f"rule set {rule_set} has another digest"
        )
    summary = json.loads((folder / "summary.json").read_bytes())["rules"].values()
    require(
        all((each["pack"], each["id"], each["rule_digest"]) in rules for each in summary), "a rule is missing"
    )
    return [
        f"passed       {len(rules)} rules have their digests, {ids} verdicts their ids",
        f"passed       {sum(shown.values())} violated and unmet verdicts follow: "
        f"{shown['by meaning']} by meaning and table, {shown['table only']} by the table only",
        f"not checked  {counts['verdicts']} verdicts whose certificates were left out",
        attested(folder),
    ]


def attested(folder):
    """Check the files against the attestation, and return a text."""
    if not (folder / "attestation.json").exists():
        return "not checked  digests of files: there is no attestation"
    envelope = json.loads((folder / "attestation.json").read_bytes())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    types = envelope["payloadType"], statement["_type"], statement["predicateType"]
    expected = "application/vnd.in-toto+json", "https://in-toto.io/Statement/v1", "urn:tracline:audit:1"
    require(types == expected, f"unknown types {types}")
    paths = [path for path in folder.rglob("*") if path.is_file()]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    differ = {name for name, _ in digests.items() ^ subjects.items()} - {"attestation.json", "timestamp.tsr"}
    require(not differ, f"not as attested: {sorted(differ)}")
    return f"passed       {len(subjects)} files are as attested (the signature is not checked)"


def main():
    """Check the bundle that the command line names, and return the exit code."""
    try:
        print(*check(pathlib.Path(sys.argv[1])), sep="\n")
    except Refused as error:
        print(f"FAILED       {error}")
        return 1
    except (OSError, ValueError, LookupError, TypeError) as error:
        print(f"unreadable   {error!r}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
