-- Media that were given up as worn or at fault: when. Nothing is written to them any more.
ALTER TABLE media_management ADD COLUMN retired_us BIGINT;

-- Drives without a robot whose tape somebody is to put in: a row while a process waits for it. A process that was killed leaves
-- its rows; who reads them sees that it is gone, or that it has not been heard of.
CREATE TABLE tape_requests (
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    drive TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    wanted TEXT NOT NULL,
    since_us BIGINT NOT NULL,
    heard_us BIGINT NOT NULL,     -- when the process said last that it waits
    PRIMARY KEY (host, pid, drive)
);

-- Robots that are moving tapes: who has each, for all hosts that share its library. A lease is prolonged while it is used.
CREATE TABLE robot_leases (
    robot TEXT NOT NULL PRIMARY KEY,
    lease TEXT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    boot_id TEXT NOT NULL,
    since_us BIGINT NOT NULL,
    until_us BIGINT NOT NULL
);
