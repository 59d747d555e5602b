-- Numbers and keys of the database as a whole.
CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('commits', 0), ('fold', 1), ('secret', randomblob(32));

-- Large payloads are named in the payload itself; who uses a blob is kept beside it, so that it can be collected.
CREATE TABLE blob_use (
  session INTEGER NOT NULL,
  hash    BLOB NOT NULL,
  PRIMARY KEY (session, hash)
) WITHOUT ROWID;
CREATE INDEX blob_use_hash ON blob_use (hash);
INSERT OR IGNORE INTO blob_use SELECT session, blob FROM event WHERE blob IS NOT NULL;
UPDATE event SET data = '@' || lower(hex(blob)) WHERE blob IS NOT NULL;
ALTER TABLE event DROP COLUMN blob;

-- Under which ownership an event was written (none: anybody could), and in which commit.
ALTER TABLE event ADD COLUMN epoch INTEGER;
ALTER TABLE event ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0;

ALTER TABLE session ADD COLUMN folded TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN input INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN output INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN reasoning INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN cache_read INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN cache_write INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
DROP INDEX session_recent;
DROP INDEX session_updated;
CREATE INDEX session_listed ON session (updated DESC, key DESC) WHERE trashed IS NULL;
CREATE INDEX session_project ON session (project, updated DESC, key DESC) WHERE trashed IS NULL;
CREATE INDEX session_directory ON session (directory, updated DESC, key DESC) WHERE trashed IS NULL;
CREATE INDEX session_trashed ON session (trashed) WHERE trashed IS NOT NULL;
CREATE INDEX session_changed ON session (changed);
CREATE INDEX session_owner ON session (owner) WHERE owner IS NOT NULL;

-- Full-text search: the place of each text, and its words under the same key.
CREATE TABLE text (
  key     INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  entry   TEXT NOT NULL,
  part    TEXT NOT NULL
);
CREATE UNIQUE INDEX text_place ON text (session, entry, part);
CREATE VIRTUAL TABLE search USING fts5 (
  words, content = '', contentless_delete = 1, detail = none,
  tokenize = "ascii tokenchars '_'"
);

-- Sessions that were deleted for good, so that no import or late append brings them back.
CREATE TABLE tombstone (
  session TEXT PRIMARY KEY,
  time    INTEGER NOT NULL
) WITHOUT ROWID;

-- Damaged sessions that were set aside.
CREATE TABLE quarantine (
  session TEXT PRIMARY KEY,
  time    INTEGER NOT NULL,
  reason  TEXT NOT NULL
) WITHOUT ROWID;

-- What was done to the log itself: scrubs, rebuilds, purges.
CREATE TABLE audit (
  key    INTEGER PRIMARY KEY,
  time   INTEGER NOT NULL,
  action TEXT NOT NULL,
  detail TEXT NOT NULL
);
