-- When the run began of which a session is a part, in microseconds since 1970; nothing, where it is not known. It says to which night a
-- session belongs that goes on after midnight.
ALTER TABLE sessions ADD COLUMN run_us BIGINT;
