-- What processes wait for that others have: a row for each wait while it lasts. A process that was killed leaves its rows; who reads
-- them sees that it is gone, or that it has not been heard of.
CREATE TABLE session_waits (
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    boot_id TEXT NOT NULL,
    number BIGINT NOT NULL,       -- of the waits of that process
    command TEXT NOT NULL,
    why TEXT NOT NULL,
    since_us BIGINT NOT NULL,
    heard_us BIGINT NOT NULL,     -- when the process said last that it waits
    PRIMARY KEY (boot_id, pid, number)
);
