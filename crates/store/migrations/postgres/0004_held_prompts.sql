-- From here on a session counts the prompts that wait in it, and holds them when it is stopped. Rows of sessions with work
-- left are made anew when the store is opened, by the version of the fold.
UPDATE meta SET value = '4' WHERE name = 'fold' AND NOT EXISTS (SELECT 1 FROM session);
