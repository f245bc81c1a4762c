-- The order in which versions were committed and sessions begun: the greater, the newer, whatever clocks said. A synthetic full has
-- the place of the version whose state it has. What has 0 was found on a medium and has no place yet; order_known says that this
-- database saw it happen.
ALTER TABLE versions ADD COLUMN commit_order BIGINT NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN order_known BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX versions_by_order ON versions (commit_order);
ALTER TABLE sessions ADD COLUMN begin_order BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN order_known BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX sessions_by_order ON sessions (begin_order);
