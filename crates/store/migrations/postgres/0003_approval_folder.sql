-- An approval holds in the folder that it was given in. Earlier ones name a project, which all of its clones and everything
-- outside of repositories have in common; where they were given is not known, so they hold nowhere.
DROP TABLE approval;

CREATE TABLE approval (
  project    text COLLATE "C" NOT NULL,
  folder     text COLLATE "C" NOT NULL,
  permission text COLLATE "C" NOT NULL,
  pattern    text COLLATE "C" NOT NULL,
  time       bigint NOT NULL,
  PRIMARY KEY (project, folder, permission, pattern)
);
