-- From here on logs and rows hold faults, calls and subjects in shapes that earlier versions cannot read. Old rows are read
-- as they are; those of sessions with work left are made anew when the store is opened, by the version of the fold.
UPDATE meta SET value = 3 WHERE name = 'fold' AND NOT EXISTS (SELECT 1 FROM session);
