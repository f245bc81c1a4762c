-- The paths that a version was to have and of which it lacks something, as a JSON list; an empty text in it stands for such that nobody
-- can name. Nothing, where an earlier program made the version, or its medium does not say it.
ALTER TABLE versions ADD COLUMN lacks TEXT;
