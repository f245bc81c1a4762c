-- Of a segment on tape: blocks and filemarks before its first block, by which a drive goes there.
ALTER TABLE segment_places ADD COLUMN object BIGINT;
