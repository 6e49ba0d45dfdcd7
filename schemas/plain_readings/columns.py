"""The columns of the arrays that the compiled loops over plain traces share.

Offsets are those in the bytes of all requests of a batch. A text has two columns: its offset and its size,
which is `MISSING` where there is none.
"""

from __future__ import annotations

MISSING, UNNAMED = -1, -2
"""Sizes of texts that are not there; an error without a name is `UNNAMED`."""
OTHER, CHAT, TOOL, AGENT = range(4)
"""Roles of spans."""
BOTH_HALVES, INPUT_HALF, OUTPUT_HALF = 3, 1, 2
"""Bits of halves."""

RECORD, SENDER, SPAN, SPAN_STOP, RESOURCE, RESOURCE_STOP, SCOPE, SCOPE_STOP = range(8)
TRACE, IDENTITY, PARENT, START, END = range(8, 13)
ROLE, CLAIMS, CAPTURED, LACKS, ENDS, NESTED, OWN, REQUEST = range(13, 21)
"""`NESTED` is `MISSING` without the attribute, `REQUEST` the size of a request of the span alone."""
ERROR, SESSION, NAME, MODEL, ANSWER, CALL, TOOL_NAME, ARGUMENTS = range(21, 37, 2)
"""Texts; `NAME` is the agent's, `ANSWER` the id of a model's answer."""
FLAT, COMPACT, READING_COLUMNS = range(37, 40)
"""True for a span of a convention with flattened messages, and the size of its arguments as compact JSON,
`MISSING` where they stay as they are."""

READING_OF, FIRST, STOP, CHARS, READ, FLAT_READ = range(6)
"""Columns of a run: consecutive spans of one trace, resource and scope in a request. The number of the
request, its rows, the characters that they count while they wait, how many of them have claims, and whether
one has a convention with flattened messages."""
RUN_COLUMNS = 6

RUNS, RUNS_STOP, LATEST, LAST_END = range(4)
"""Columns of a request: its runs, the latest time and the latest end of its spans. `RUNS` is `MISSING` where
only the dialects can read all of its spans."""
REQUEST_COLUMNS = 4

SERVICE, SERVICE_SIZE, PREFIX, PREFIX_SIZE, COARSE, SENDER_COLUMNS = range(6)
"""Columns of a sender: the offsets and sizes of the service's name and of the prefix of sessions, and whether
its clock is coarse."""
TIME, OFFSET, RECORD_COLUMNS = range(3)
"""Columns of a record."""

ROW, ROW_STOP, KNOWN, GROUP_COLUMNS = range(4)
"""Columns of a group, the spans of a trace: their places among the members, and the number known before."""
STATUS, DUE, WHOLE, WHOLE_STOP, CHANGES, CHANGES_STOP, CANDIDATES, CANDIDATES_STOP, FREED = range(9)
RESULT_COLUMNS = 9
"""Columns of a group's result: its status, the least watermark at which a span is released, the offsets of
what is stored, its candidates, and the characters freed."""
OPEN, WAITS, RELEASED = range(3)
"""A trace that the ordinary path has to resolve, one that waits, and one that is released whole."""
BEGIN, BEHIND, SESSION_BEGIN, SESSION_BEHIND, CANDIDATE_COLUMNS = range(5)
"""Columns of a candidate: its offsets among what was written, and those of its session's id."""
