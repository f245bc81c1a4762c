-- Which version a synthetic full has the state of: what built on that one can build on it.
ALTER TABLE versions ADD COLUMN stands_for_id TEXT;
CREATE INDEX versions_by_base ON versions (base_id);
CREATE INDEX versions_by_stands_for ON versions (stands_for_id);

-- How much of a copied segment's catalog is kept: all, files, directories, none.
ALTER TABLE segment_copies ADD COLUMN level TEXT;  -- NULL: as of the session that wrote the original
