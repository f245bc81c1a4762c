-- Media that say that they are another cell's: which. It is known so before they are loaded.
ALTER TABLE media_management ADD COLUMN other_cell TEXT;
-- Those of them that were made this one's, where that cannot be written on them: tapes. When.
ALTER TABLE media_management ADD COLUMN adopted_us BIGINT;
