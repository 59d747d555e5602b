-- The log is the truth; every other table of a session is a projection that can be rebuilt from it.
CREATE TABLE session (
  key       INTEGER PRIMARY KEY,
  id        TEXT NOT NULL UNIQUE,
  seq       INTEGER NOT NULL,
  project   TEXT NOT NULL,
  directory TEXT NOT NULL,
  parent    TEXT,
  title     TEXT NOT NULL,
  created   INTEGER NOT NULL,
  updated   INTEGER NOT NULL,
  archived  INTEGER,
  trashed   INTEGER,
  open      INTEGER NOT NULL DEFAULT 0,
  owner     TEXT,
  epoch     INTEGER NOT NULL DEFAULT 0,
  data      TEXT NOT NULL
);
CREATE INDEX session_recent ON session (project, updated DESC, key DESC);
CREATE INDEX session_updated ON session (updated DESC, key DESC);
CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;
CREATE INDEX session_open ON session (open) WHERE open = 1;

CREATE TABLE event (
  session INTEGER NOT NULL REFERENCES session (key),
  seq     INTEGER NOT NULL,
  id      TEXT NOT NULL UNIQUE,
  time    INTEGER NOT NULL,
  type    TEXT NOT NULL,
  data    TEXT,
  blob    BLOB,
  PRIMARY KEY (session, seq)
) WITHOUT ROWID;

CREATE TABLE entry (
  session INTEGER NOT NULL,
  id      TEXT NOT NULL,
  ord     INTEGER NOT NULL,
  parent  TEXT,
  data    TEXT NOT NULL
);
CREATE UNIQUE INDEX entry_id ON entry (session, id);

CREATE TABLE part (
  session INTEGER NOT NULL,
  entry   TEXT NOT NULL,
  id      TEXT NOT NULL,
  ord     INTEGER NOT NULL,
  data    TEXT NOT NULL
);
CREATE UNIQUE INDEX part_id ON part (session, entry, id);

CREATE TABLE inbox (
  session INTEGER NOT NULL,
  id      TEXT NOT NULL,
  ord     INTEGER NOT NULL,
  data    TEXT NOT NULL,
  PRIMARY KEY (session, id)
) WITHOUT ROWID;

CREATE TABLE request (
  id      TEXT PRIMARY KEY,
  session INTEGER NOT NULL,
  data    TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX request_session ON request (session);

CREATE TABLE todo (
  session INTEGER PRIMARY KEY,
  data    TEXT NOT NULL
);

-- Text that is being streamed: saved beside the log piece by piece, a few times a second; gone when its part is complete.
CREATE TABLE stream (
  session INTEGER NOT NULL,
  part    TEXT NOT NULL,
  start   INTEGER NOT NULL,
  entry   TEXT NOT NULL,
  text    TEXT NOT NULL,
  PRIMARY KEY (session, part, start)
) WITHOUT ROWID;

CREATE TABLE blob (
  hash BLOB PRIMARY KEY,
  size INTEGER NOT NULL,
  data BLOB NOT NULL
) WITHOUT ROWID;

-- Facts that belong to no session.
CREATE TABLE project (
  id      TEXT PRIMARY KEY,
  data    TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE approval (
  project    TEXT NOT NULL,
  permission TEXT NOT NULL,
  pattern    TEXT NOT NULL,
  time       INTEGER NOT NULL,
  PRIMARY KEY (project, permission, pattern)
) WITHOUT ROWID;
