"""Check the bundle of an audit without tracline: `python3 check_bundle.py BUNDLE`.

It derives each `violated` and `unmet` verdict from `certificates.jsonl` twice: by the table of the rule's
machine, and by its formula's meaning, so that the compiler need not be trusted. What only the table shows is
counted apart. It checks digests and ids, not the signature, nor that the labels are those of the texts.
docs/bundle.md describes the files. Exit code 0: all holds; 1: something does not; 2: an unreadable bundle.
"""

import base64
import hashlib
import itertools
import json
import pathlib
import sys

SLICES_MAX, TRIED_MAX = 1000, 6  # of a rule: slices in a session; unknown propositions tried at an event
# Readers differ in which value they take of a name that an object has twice.
JSON = json.JSONDecoder(object_pairs_hook=lambda p: require(len(dict(p)) == len(p), "name twice") or dict(p))
NO, MAYBE, YES = 0, 1, 2  # truth where labels are unknown: `and` is min, `or` is max, `not x` is 2 - x
PENDING, VIOLATED, SATISFIED, STAYS = 0, 1, 2, 2  # `output % 8`; a code that repeats a verdict is STAYS more
FUTURE = {"next", "weak_next", "eventually", "always", "until", "weak_until", "release", "strong_release"}
ENDS_FALSE = {"next", "eventually", "until", "strong_release"}  # false behind the end of a session
PAST = {"previous", "weak_previous", "once", "historically", "since", "weak_since", "at_most"}


def require(holds, text):
    """Refuse the bundle, with exit code 1, unless a condition holds."""
    if not holds:
        sys.exit(f"FAILED       {text}")


def digest(value):
    """Return the SHA-256 of the canonical JSON (RFC 8785) of texts, nulls and lists of them."""
    return hashlib.sha256(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


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
        """Return the letters that an event may have, None: the rule may not see it; it stops if none."""
        steps, unknown = self.content["steps"], [name for name in truth if truth[name] == MAYBE]
        if self.content.get("unknown", "stop") == "stop":
            seen = YES if steps is None else Run(self, truth).now(steps, 0)
            if seen != YES or not self.asked.isdisjoint(unknown):
                return {None} if seen == NO else set()
            unknown = []
        if len(unknown) > TRIED_MAX:
            return {*self.letters, *([] if steps is None else [None])}
        found = set()
        for values in itertools.product((NO, YES), repeat=len(unknown)):
            known = {**truth, **dict(zip(unknown, values, strict=True))}
            word = sum(known[name] // YES << i for i, name in enumerate(self.machine["propositions"]))
            found.add(self.letters[word] if steps is None or Run(self, known).now(steps, 0) else None)
        return found


class Run:
    """A run over the events of a slice: the machine's states, and the first place of the pending instance."""

    def __init__(self, rule, *truths):
        self.rule, self.states, self.truths, self.known, self.last = rule, {0}, [*truths], {}, None
        self.start, self.blind = 0, False  # None: unclear; true: unclear which events the rule sees
        self.final, self.after_satisfied = False, False

    def step(self, event, letters, truth):
        """Step over an event; return the verdict there, and whether the meaning shows it."""
        machine, self.last = self.rule.machine, event
        pairs = [(state, letter) for state in self.states for letter in letters]
        codes = {PENDING if letter is None else machine["output"][s][letter] % 8 for s, letter in pairs}
        self.states = {s if letter is None else machine["next"][s][letter] for s, letter in pairs}
        verdict = next((v for v in (VIOLATED, SATISFIED) if v in codes and codes <= {v, v + STAYS}), PENDING)
        if None in letters:
            self.start, self.blind = None, True
        self.truths.append(truth)
        end = len(self.truths)
        for node in self.rule.settled.values():
            self.now(node, end - 1)
        meant = self.meant(end) if verdict or self.rule.body is not None else {PENDING}
        require(self.start is None or verdict in meant, f"{event}: the formula has another verdict")
        recover = self.rule.content["recover"]
        is_doubtful = len(codes) > 1 or (verdict and meant != {verdict})
        if is_doubtful and not (self.rule.body and recover == "both"):
            self.start = None  # what restarts an instance must itself be shown
        elif verdict and not self.blind:
            require(PENDING in self.meant(end - 1), f"{event}: the formula was decided before")
            self.final = recover == "none" or (recover == "violation" and verdict == SATISFIED)
            self.start, self.after_satisfied = end, verdict == SATISFIED
        return verdict, meant == {verdict}

    def meant(self, end):
        """Return the verdicts that the formula allows after the events before the place `end`."""
        any_verdict = {PENDING, VIOLATED, SATISFIED}
        if self.start is None or self.start >= end or self.final:
            return {PENDING} if self.final and self.start is not None else any_verdict
        if self.rule.body is not None:
            return [{VIOLATED}, {PENDING, VIOLATED}, {PENDING}][self.now(self.rule.body, end - 1)]
        weak, strong = (self.values(self.rule.formula, end, behind)[0] for behind in (YES, NO))
        return {VIOLATED} if weak == NO else {SATISFIED} if strong == YES else any_verdict

    def close(self):
        """Return whether the closing verdict is `unmet`, and whether the meaning shows it."""
        is_unmet = {self.rule.machine["closing"][state] for state in self.states} == {"unmet"}
        if self.start is None:
            return is_unmet, False
        end = len(self.truths)
        require(PENDING in self.meant(end), f"{self.last}: the formula is decided without a verdict")
        is_pending = self.rule.body is None and not self.final and self.start < end
        value = self.values(self.rule.formula, end, None)[0] if is_pending else YES
        require(value != YES if is_unmet else value != NO or self.after_satisfied, f"{self.last}: close")
        return is_unmet, value == NO

    def now(self, formula, at):
        """Return the value at a place of a formula that does not look ahead; earlier values are known."""
        if isinstance(formula, str):
            bit = self.rule.bits.get(formula)
            return self.truths[at][formula] if bit is None else self.now(bit, at)
        if (at, id(formula)) in self.known:
            return self.known[at, id(formula)]
        op, bounds, operands = parts(formula)
        bounds = (1, 1) if op in ("previous", "weak_previous") and bounds is None else bounds
        values = [] if bounds else [self.now(operand, at) for operand in operands]
        first, best = (YES, min) if op in ("weak_previous", "historically", "weak_since") else (NO, max)
        if op not in PAST:
            value = boolean(op, values, values)
        elif op == "at_most":
            low, high = (sum(self.now(operands[0], i) >= v for i in range(at + 1)) for v in (YES, MAYBE))
            value = NO if low > bounds[1] else YES if high <= bounds[1] else MAYBE
        elif bounds:
            places = range(max(0, at - bounds[1]), at - bounds[0] + 1)
            value = best([first, *(self.now(operands[0], place) for place in places)])
        else:
            before = self.now(formula, at - 1) if at else first
            value = best(before, values[0]) if len(values) == 1 else max(values[1], min(values[0], before))
        return self.known.setdefault((at, id(formula)), value)

    def values(self, formula, end, behind):
        """Return the values from the instance's start to `end`; `behind`: all values later, None: a close."""
        places = range(self.start, end)
        if isinstance(formula, str) or id(formula) in self.rule.settled:
            return [self.now(formula, at) for at in places]
        op, bounds, operands = parts(formula)
        found = [self.values(operand, end, behind) for operand in operands]
        if op not in FUTURE:
            under_not = None if behind is None else 2 - behind
            exchanged = [self.values(operand, end, under_not) for operand in operands]
            return [boolean(op, [v[i] for v in found], [v[i] for v in exchanged]) for i in range(len(places))]
        last, values = (op not in ENDS_FALSE) * YES if behind is None else behind, []
        low, high = bounds or (1, 1)
        for i in reversed(range(len(places))):
            p, q = {"eventually": YES, "always": NO}.get(op, found[0][i]), found[-1][i]
            reached = found[0][i + low : i + high + 1] + [last] * (i + high >= len(places))
            if bounds or op in ("next", "weak_next"):
                values.append((max if op in ("next", "eventually") else min)(reached))
                continue
            is_until = op in ("eventually", "until", "weak_until")  # q or (p and next (p until q))
            last = max(q, min(p, last)) if is_until else min(q, max(p, last))
            values.append(last)
        return values[::-1]


def derive(rule, pack, head, session):
    """Yield the violated and unmet verdicts of a rule in a session: slice, event, verdict, is shown."""
    key = None if rule.content["for_each"] is None else head["keys"].index(rule.content["for_each"])
    numbers = {name: head["propositions"].index([pack, name]) for name in rule.content["propositions"]}
    truths = [{n: YES if i in t else int(i in u) for n, i in numbers.items()} for t, u in session["words"]]
    letters, plain, slices = [*map(rule.readings, truths)], Run(rule), {}
    for event in session["events"]:
        read, value = letters[event[2]], -1 if key is None else event[3 + key]  # -1: none; -2: unknown
        if read == {None}:
            continue
        name = session["values"][key][value] if value >= 0 else None
        begins = name is not None and name not in slices
        if not read or value == -2 or (begins and (len(slices) == SLICES_MAX or None in read)):
            return
        if begins:
            slices[name] = run = Run(rule)
            vars(run).update(vars(plain), truths=[*plain.truths], known={**plain.known})
        for each, run in [(None, plain), *slices.items()] if name is None else [(name, slices[name])]:
            verdict, is_shown = run.step(event, read, truths[event[2]])
            if verdict == VIOLATED and not (run is plain and slices):
                yield each, event, "violated", is_shown
    for each, run in [(None, plain)] if key is None else slices.items():
        is_unmet, is_shown = run.close() if run.last and session["closed"] else (False, False)
        if is_unmet:
            yield each, run.last, "unmet", is_shown


def certified(folder, shown):
    """Return the verdicts that follow, by place and identity, rules, head, end, number of session lines."""
    with (folder / "certificates.jsonl").open(encoding="utf-8", newline="\n") as lines:
        head, line, rules, found, last, count = JSON.decode(next(lines, "")), None, {}, {}, (), 0
        require(head["version"] == "tracline-certificates/1", "an unknown version of certificates")
        for text in lines:
            line = JSON.decode(text)
            if line["kind"] == "rule":
                key = hashlib.sha256(text[11 : JSON.raw_decode(text, 11)[1]].encode()).hexdigest()
                require(text[:11] == '{"content":' and key == line["rule_digest"], f"digest: {text}")
                rules |= {(pack, name, key): Rule(line) for pack, name in line["rules"]}
            elif line["kind"] == "session":
                place, seqs = (line["session_id"], line["occurrence"]), [event[0] for event in line["events"]]
                require(seqs == sorted(set(seqs)) and last < (*place, *seqs[:1]), f"{place}: unordered")
                last, verdicts, count = (*place, *seqs[-1:]), found.setdefault(place, {}), count + 1
                sets = head["rule_sets"] or {None: [(*named, "", key) for *named, key in rules]}
                for *names, _, key in sets[line["rule_set"]]:
                    for value, event, *verdict in derive(rules[*names, key], names[0], head, line):
                        verdicts[*names, key, *place, value, event[1], verdict[0]] = event[0]
                        shown[verdict[1]] += 1
    return found, rules, head, line, count


def check(folder):
    """Print what was checked of a bundle."""
    shown, listed, ids = [0, 0], {}, set()
    found, rules, head, end, count = certified(folder, shown)
    names = ("pack", "rule", "rule_digest", "session_id", "occurrence", "slice", "event_id", "verdict")
    with (folder / "verdicts.jsonl").open(encoding="utf-8", newline="\n") as lines:
        for line in map(JSON.decode, lines):
            identity = tuple(line[name] for name in names)
            is_known = line["id"] in ("r:" + line["id"][2:], digest(["tracline/1", *identity])[:32])
            require(is_known and line["id"] not in ids, f"verdict {line['id']}: another id, or twice")
            ids.add(line["id"])
            if line["verdict"] in ("violated", "unmet"):
                listed.setdefault((line["session_id"], line["occurrence"]), {})[identity] = line["seq"]
    for place, verdicts in found.items():
        stated, is_cut = listed.get(place, {}).items(), head["since"] or head["until"]
        differ = stated - verdicts.items() if is_cut else stated ^ verdicts.items()
        require(not differ, f"session {place}: verdicts do not follow, or are missing: {differ}")
    left_out = [len(verdicts) for place, verdicts in listed.items() if place not in found]
    totals = {"kind": "end", "left_out": {"sessions": len(left_out), "verdicts": sum(left_out)}}
    totals |= {"sessions": count, "verdicts": sum(map(len, listed.values())) - sum(left_out)}
    is_named = [digest(["tracline-rule-set/1", m]) == key for key, m in head["rule_sets"].items()]
    require(end == totals and all(is_named), f"the end is not {totals}, or a rule set has another digest")
    print(f"passed       {len(rules)} rules have their digests, and verdicts their ids")
    print(f"passed       {sum(shown)} verdicts follow, {shown[0]} of them by the table only")
    print(f"not checked  {sum(left_out)} verdicts left out, {sum(i[:2] == 'r:' for i in ids)} redacted ids")
    if (folder / "attestation.json").exists():
        check_files(folder)


def check_files(folder):
    """Check the files against the attestation."""
    envelope = JSON.decode((folder / "attestation.json").read_text(encoding="utf-8"))
    statement = JSON.decode(base64.b64decode(envelope["payload"], validate=True).decode())
    require(statement["predicateType"] == "urn:tracline:audit:1", "an unknown attestation")
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items()}
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    differ = {name for name, _ in digests.items() ^ subjects.items()} - {"attestation.json", "timestamp.tsr"}
    require(not differ, f"not as attested: {sorted(differ)}")
    print(f"passed       {len(subjects)} files are as attested; the signature is not checked")


if __name__ == "__main__":
    try:
        check(pathlib.Path(sys.argv[1]))
    except Exception as error:  # a hostile bundle can raise any
        sys.exit(print(f"unreadable   {error!r}") or 2)
