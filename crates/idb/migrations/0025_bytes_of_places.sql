-- The bytes that a segment has where it lies, if an import took it as it is there and that is not what was written. Nothing else has it.
ALTER TABLE segment_places ADD COLUMN bytes BIGINT;
