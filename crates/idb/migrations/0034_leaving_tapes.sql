-- Tapes that a session was to bring out of their library, and that are in there still: there was no mail slot, or the robot failed.
CREATE TABLE leaving_tapes (
    medium_id TEXT NOT NULL,
    tape TEXT NOT NULL,           -- the tape, as its device is recorded
    asked_us BIGINT NOT NULL,     -- when it was to leave
    leaves_to TEXT NOT NULL,      -- where it was to go
    PRIMARY KEY (medium_id, tape)
);
