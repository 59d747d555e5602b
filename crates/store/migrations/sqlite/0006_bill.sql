-- What each session has spent, line by line: one for each step, title and the like. The sums of a session's lines are what
-- its row says.
DROP TABLE IF EXISTS bill;
CREATE TABLE bill (
  session     INTEGER NOT NULL,
  seq         INTEGER NOT NULL,
  line        INTEGER NOT NULL,
  time        INTEGER NOT NULL,
  provider    TEXT NOT NULL,
  model       TEXT NOT NULL,
  source      TEXT NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  reasoning   INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost        INTEGER NOT NULL,
  PRIMARY KEY (session, seq, line)
) WITHOUT ROWID;
CREATE INDEX bill_time ON bill (time);

-- Sessions of which lines are missing: those of earlier versions, until somebody asks. They are made of the log then.
DROP TABLE IF EXISTS unbilled;
CREATE TABLE unbilled (
  session INTEGER PRIMARY KEY
);
INSERT INTO unbilled SELECT key FROM session
WHERE input != 0 OR output != 0 OR reasoning != 0 OR cache_read != 0 OR cache_write != 0 OR cost != 0;
