"""The tables of the embedded store: the state of `serve`, and the data of its console.

Times are nanoseconds since the epoch. Everything that a batch changes is written in one transaction.
"""

from __future__ import annotations

VERSION = 5
"""Version of the tables and of the codecs of their blobs; `serve` refuses a store of an unknown version."""

SCOPES = """
CREATE TABLE scope (              -- counts of spans by instrumentation scope
  name  TEXT PRIMARY KEY,
  spans INTEGER NOT NULL,
  read  INTEGER NOT NULL
) WITHOUT ROWID;
"""

PAGES = """
CREATE TABLE page (               -- pages of session states (schemas/paged/page.py), which never change
  session_id TEXT NOT NULL,
  round      INTEGER NOT NULL,    -- the commits with new pages of the session, counted
  number     INTEGER NOT NULL,    -- among the pages of the round
  data       BLOB NOT NULL,
  PRIMARY KEY (session_id, round, number)
);
CREATE TABLE trace_change (       -- changes of a trace since its state was written
  trace_id TEXT NOT NULL,
  number   INTEGER NOT NULL,
  data     BLOB NOT NULL,
  PRIMARY KEY (trace_id, number)
);
"""

CROSSINGS = """
CREATE TABLE crossing (           -- crossings of risk; `record` is the line of risk.jsonl
  number     INTEGER PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL UNIQUE,
  level      TEXT NOT NULL,
  pack       TEXT NOT NULL,
  rule       TEXT NOT NULL,
  session_id TEXT NOT NULL,
  occurrence INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  time       INTEGER NOT NULL,
  risk       REAL,                -- null where the rule can be violated no more
  threshold  REAL NOT NULL,
  severity   TEXT NOT NULL,
  agent      TEXT,
  history    INTEGER NOT NULL,
  given      INTEGER NOT NULL,    -- wall clock
  record     BLOB NOT NULL
);
CREATE INDEX crossing_session ON crossing (session_id, occurrence);
CREATE INDEX crossing_rule ON crossing (pack, rule, number);
"""

SESSIONS = """
CREATE TABLE session (            -- session states; `due`: the watermark at which a session is due
  session_id TEXT PRIMARY KEY,
  due        INTEGER,
  open       INTEGER NOT NULL,    -- whether an occurrence is open; else the state only detects repeats
  state      BLOB NOT NULL,
  pages      BLOB NOT NULL DEFAULT x''  -- the places of the state's pages in the table `page`
);
CREATE TABLE trace (              -- traces, some with pending spans (schemas/sessions/pending.py)
  number   INTEGER PRIMARY KEY,   -- in the order in which they were written
  trace_id TEXT NOT NULL,
  touched  INTEGER NOT NULL,
  state    BLOB NOT NULL
);
"""

MIGRATIONS = {
    1: f"""
ALTER TABLE inbox ADD COLUMN signal TEXT NOT NULL DEFAULT 'spans';
ALTER TABLE quarantine ADD COLUMN signal TEXT NOT NULL DEFAULT 'spans';
{SCOPES}""",
    2: f"""
ALTER TABLE session ADD COLUMN pages BLOB NOT NULL DEFAULT x'';
{PAGES}""",
    3: f"""
ALTER TABLE archived ADD COLUMN crossing INTEGER NOT NULL DEFAULT 0;
{CROSSINGS}""",
    4: f"""
ALTER TABLE session RENAME TO session_before;
ALTER TABLE trace RENAME TO trace_before;
{SESSIONS}
INSERT INTO session (session_id, due, open, state, pages)
  SELECT session_id, due, open, state, pages FROM session_before;
INSERT INTO trace (trace_id, touched, state)
  SELECT trace_id, touched, state FROM trace_before ORDER BY touched, trace_id;
DROP TABLE session_before;
DROP TABLE trace_before;
""",
}
"""The migration from each earlier version that is read to the next one."""

TABLES = f"""
CREATE TABLE inbox (              -- acknowledged requests that are not judged
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  received  INTEGER NOT NULL,
  encoding  TEXT NOT NULL,
  body      BLOB NOT NULL,
  signal    TEXT NOT NULL         -- spans or logs
);
CREATE TABLE quarantine (         -- requests that broke the pipeline, whole, for its developers
  id        INTEGER PRIMARY KEY,
  received  INTEGER NOT NULL,
  encoding  TEXT NOT NULL,
  body      BLOB NOT NULL,
  signal    TEXT NOT NULL
);
CREATE TABLE event (              -- judged events and `end` rows, in judged order
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL,
  occurrence INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  time       INTEGER NOT NULL,
  kind       TEXT NOT NULL,
  row        BLOB NOT NULL        -- all columns of the event frame as a JSON object, times as integers
);
CREATE INDEX event_session ON event (session_id, occurrence, seq);
CREATE INDEX event_first ON event (id) WHERE seq = 1;
CREATE INDEX event_end ON event (id) WHERE kind = 'end';
CREATE TABLE verdict (            -- verdicts; `record` is the line of verdicts.jsonl
  number     INTEGER PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL UNIQUE,
  pack       TEXT NOT NULL,
  rule       TEXT NOT NULL,
  session_id TEXT NOT NULL,
  occurrence INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  time       INTEGER NOT NULL,
  verdict    TEXT NOT NULL,
  severity   TEXT NOT NULL,
  agent      TEXT,
  history    INTEGER NOT NULL,
  given      INTEGER NOT NULL,    -- wall clock
  record     BLOB NOT NULL
);
CREATE INDEX verdict_session ON verdict (session_id, occurrence);
CREATE INDEX verdict_rule ON verdict (pack, rule, number);
CREATE TABLE standing (           -- a rule's status in an occurrence; event times, null: not yet
  session_id TEXT NOT NULL,
  occurrence INTEGER NOT NULL,
  pack       TEXT NOT NULL,
  rule       TEXT NOT NULL,
  agent      TEXT,
  applied    INTEGER,
  violated   INTEGER,             -- first `violated` or `unmet`, history aside
  unjudged   INTEGER,
  closed     INTEGER,
  PRIMARY KEY (session_id, occurrence, pack, rule)
) WITHOUT ROWID;
CREATE INDEX standing_applied ON standing (applied);
CREATE TABLE dead_letter (        -- requests and spans that could not be read or judged, without content
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  received INTEGER NOT NULL,
  place    TEXT NOT NULL,
  code     TEXT NOT NULL,
  reason   TEXT NOT NULL,
  sha256   TEXT NOT NULL
);
CREATE TABLE archived (           -- rounds of archiving, with the last event, verdict and crossing of each
  event    INTEGER PRIMARY KEY,
  verdict  INTEGER NOT NULL,
  time     INTEGER NOT NULL,      -- wall clock
  crossing INTEGER NOT NULL DEFAULT 0
);
{SCOPES}{SESSIONS}{PAGES}{CROSSINGS}CREATE TABLE fact (               -- see stream/serve/store.py
  name  TEXT PRIMARY KEY,
  value BLOB NOT NULL
) WITHOUT ROWID;
"""
