-- How many frames of its original a copy lacks, as they could be had nowhere when it was written. Only a copy that lacks nothing stands
-- for its original.
ALTER TABLE segment_copies ADD COLUMN lacks BIGINT NOT NULL DEFAULT 0;

CREATE INDEX segment_copies_by_origin ON segment_copies (origin_id);
CREATE INDEX segment_copies_by_lack ON segment_copies (lacks);
