-- What each session has spent, line by line: one for each step, title and the like. The sums of a session's lines are what
-- its row says.
DROP TABLE IF EXISTS bill;
CREATE TABLE bill (
  session     bigint NOT NULL,
  seq         bigint NOT NULL,
  line        bigint NOT NULL,
  time        bigint NOT NULL,
  provider    text COLLATE "C" NOT NULL,
  model       text COLLATE "C" NOT NULL,
  source      text COLLATE "C" NOT NULL,
  input       bigint NOT NULL,
  output      bigint NOT NULL,
  reasoning   bigint NOT NULL,
  cache_read  bigint NOT NULL,
  cache_write bigint NOT NULL,
  cost        bigint NOT NULL,
  PRIMARY KEY (session, seq, line)
);
CREATE INDEX bill_time ON bill (time);

-- Sessions of which lines are missing: those of earlier versions, until somebody asks. They are made of the log then.
DROP TABLE IF EXISTS unbilled;
CREATE TABLE unbilled (
  session bigint PRIMARY KEY
);
INSERT INTO unbilled SELECT key FROM session
WHERE input <> 0 OR output <> 0 OR reasoning <> 0 OR cache_read <> 0 OR cache_write <> 0 OR cost <> 0;
