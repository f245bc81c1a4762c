-- How often a robot loaded a tape, how many bytes the tape holds, and how many of these were written when a drive said so last.
ALTER TABLE media_management ADD COLUMN loads BIGINT NOT NULL DEFAULT 0;
ALTER TABLE media_management ADD COLUMN capacity BIGINT;
ALTER TABLE media_management ADD COLUMN used BIGINT;
