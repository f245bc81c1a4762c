-- Media of other cells that were made this one's, where that cannot be written on them: tapes. When.
ALTER TABLE media_management ADD COLUMN adopted_us BIGINT;
