-- Tapes do not say how much room they have until they end: when one did is recorded.
ALTER TABLE media_management ADD COLUMN full_us BIGINT;
