-- Media that were found not to be as they were last written: since when, and what differs. Nothing is written to them until that
-- was dealt with.
ALTER TABLE media_management ADD COLUMN changed_us BIGINT;
ALTER TABLE media_management ADD COLUMN changed_why TEXT;
