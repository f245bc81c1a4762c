-- When the last error of a medium was counted, in microseconds since 1970: what was written since then tells for it.
ALTER TABLE media_management ADD COLUMN error_us BIGINT;
-- Of errors of before the time was not recorded: only what is written from now on counts.
UPDATE media_management SET error_us = COALESCE((SELECT MAX(g.committed_us) FROM segment_places l
    JOIN segments g ON g.id = l.segment_id WHERE l.medium_id = media_management.medium_id), 0) WHERE errors > 0;
