-- The first segment of the array that a member may lack; nothing where no more is known than that it was not there.
ALTER TABLE lost_members ADD COLUMN since BIGINT;
-- Which ones these are was not recorded.
UPDATE lost_members SET since = 0 WHERE why LIKE '%lacks%';
