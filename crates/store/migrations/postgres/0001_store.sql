-- All names are looked up in the schema `everturn`, which is there and first in the search path when this runs.
-- Ids are compared byte by byte, so that they sort the same under every locale.
CREATE TABLE schema (
  version bigint NOT NULL
);
INSERT INTO schema VALUES (0);

-- Numbers and keys of the database as a whole.
CREATE TABLE meta (
  name  text COLLATE "C" PRIMARY KEY,
  value bytea NOT NULL
);
INSERT INTO meta VALUES ('fold', '1');

-- The log is the truth; every other table of a session is a projection that can be rebuilt from it.
CREATE TABLE session (
  key         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id          text COLLATE "C" NOT NULL UNIQUE,
  seq         bigint NOT NULL,
  project     text COLLATE "C" NOT NULL,
  directory   text COLLATE "C" NOT NULL,
  parent      text COLLATE "C",
  title       text COLLATE "C" NOT NULL,
  folded      text COLLATE "C" NOT NULL,
  created     bigint NOT NULL,
  updated     bigint NOT NULL,
  archived    bigint,
  trashed     bigint,
  open        boolean NOT NULL,
  owner       text COLLATE "C",
  epoch       bigint NOT NULL DEFAULT 0,
  input       bigint NOT NULL,
  output      bigint NOT NULL,
  reasoning   bigint NOT NULL,
  cache_read  bigint NOT NULL,
  cache_write bigint NOT NULL,
  cost        bigint NOT NULL,
  -- The transaction of its last event.
  changed     xid8 NOT NULL,
  data        bytea NOT NULL
);
CREATE INDEX session_listed ON session (updated DESC, key DESC) WHERE trashed IS NULL;
CREATE INDEX session_project ON session (project, updated DESC, key DESC) WHERE trashed IS NULL;
CREATE INDEX session_directory ON session (directory, updated DESC, key DESC) WHERE trashed IS NULL;
CREATE INDEX session_trashed ON session (trashed) WHERE trashed IS NOT NULL;
CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;
CREATE INDEX session_open ON session (key) WHERE open;
CREATE INDEX session_owner ON session (owner) WHERE owner IS NOT NULL;
CREATE INDEX session_changed ON session (changed);

CREATE TABLE event (
  session bigint NOT NULL REFERENCES session (key),
  seq     bigint NOT NULL,
  id      text COLLATE "C" NOT NULL UNIQUE,
  time    bigint NOT NULL,
  type    text COLLATE "C" NOT NULL,
  data    bytea NOT NULL,
  -- Under which ownership it was written (none: anybody could), and in which transaction.
  epoch   bigint,
  stamp   xid8 NOT NULL,
  PRIMARY KEY (session, seq)
);

CREATE TABLE entry (
  session bigint NOT NULL,
  id      text COLLATE "C" NOT NULL,
  ord     bigint NOT NULL,
  parent  text COLLATE "C",
  data    bytea NOT NULL,
  PRIMARY KEY (session, id)
);

CREATE TABLE part (
  session bigint NOT NULL,
  entry   text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  ord     bigint NOT NULL,
  data    bytea NOT NULL,
  PRIMARY KEY (session, entry, id)
);

CREATE TABLE inbox (
  session bigint NOT NULL,
  id      text COLLATE "C" NOT NULL,
  ord     bigint NOT NULL,
  data    bytea NOT NULL,
  PRIMARY KEY (session, id)
);

CREATE TABLE request (
  id      text COLLATE "C" PRIMARY KEY,
  session bigint NOT NULL,
  data    bytea NOT NULL
);
CREATE INDEX request_session ON request (session);

CREATE TABLE todo (
  session bigint PRIMARY KEY,
  data    bytea NOT NULL
);

-- Text that is being streamed: saved beside the log piece by piece, a few times a second; gone when its part is complete.
CREATE TABLE stream (
  session bigint NOT NULL,
  part    text COLLATE "C" NOT NULL,
  start   bigint NOT NULL,
  entry   text COLLATE "C" NOT NULL,
  text    bytea NOT NULL,
  PRIMARY KEY (session, part, start)
);

-- Large payloads are named in the payload itself; who uses a blob is kept beside it, so that it can be collected.
CREATE TABLE blob (
  hash bytea PRIMARY KEY,
  size bigint NOT NULL,
  data bytea NOT NULL
);
-- They are compressed already.
ALTER TABLE blob ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE blob_use (
  session bigint NOT NULL,
  hash    bytea NOT NULL,
  PRIMARY KEY (session, hash)
);
CREATE INDEX blob_use_hash ON blob_use (hash);

-- Full-text search: the place of each text, and its words. The words come cut, so no dictionary is involved.
CREATE TABLE text (
  key     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session bigint NOT NULL,
  entry   text COLLATE "C" NOT NULL,
  part    text COLLATE "C" NOT NULL,
  words   tsvector NOT NULL,
  UNIQUE (session, entry, part)
);
CREATE INDEX text_words ON text USING gin (words);

-- Processes that may own sessions: until when each counts as alive by the server's clock, and where it runs.
CREATE TABLE host (
  name  text COLLATE "C" PRIMARY KEY,
  until timestamptz NOT NULL,
  boot  text NOT NULL
);

-- Facts that belong to no session.
CREATE TABLE project (
  id   text COLLATE "C" PRIMARY KEY,
  data bytea NOT NULL
);

CREATE TABLE approval (
  project    text COLLATE "C" NOT NULL,
  permission text COLLATE "C" NOT NULL,
  pattern    text COLLATE "C" NOT NULL,
  time       bigint NOT NULL,
  PRIMARY KEY (project, permission, pattern)
);

-- Sessions that were deleted for good, so that no import or late append brings them back.
CREATE TABLE tombstone (
  session text COLLATE "C" PRIMARY KEY,
  time    bigint NOT NULL
);

-- Damaged sessions that were set aside.
CREATE TABLE quarantine (
  session text COLLATE "C" PRIMARY KEY,
  time    bigint NOT NULL,
  reason  text NOT NULL
);

-- What was done to the log itself: scrubs, rebuilds, purges.
CREATE TABLE audit (
  key    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  time   bigint NOT NULL,
  action text NOT NULL,
  detail text NOT NULL
);
