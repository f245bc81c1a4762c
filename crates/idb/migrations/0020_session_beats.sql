-- When the process of a session that runs was last heard of, in microseconds: by the clock of the server that has the tables, or by
-- that of the running system where they are in a file. So who looks needs no clock that agrees with the session's.
CREATE TABLE session_beats (
    session_id TEXT NOT NULL PRIMARY KEY,
    heard_us BIGINT NOT NULL
);
