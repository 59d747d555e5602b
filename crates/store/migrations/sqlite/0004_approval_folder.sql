-- An approval holds in the folder that it was given in. Earlier ones name a project, which all of its clones and everything
-- outside of repositories have in common; where they were given is not known, so they hold nowhere.
DROP TABLE approval;

CREATE TABLE approval (
  project    TEXT NOT NULL,
  folder     TEXT NOT NULL,
  permission TEXT NOT NULL,
  pattern    TEXT NOT NULL,
  time       INTEGER NOT NULL,
  PRIMARY KEY (project, folder, permission, pattern)
) WITHOUT ROWID;
