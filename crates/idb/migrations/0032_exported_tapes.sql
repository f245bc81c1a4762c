-- Tapes of arrays that left the house one by one. An array that left as a whole has that in media_management, and nothing here.
CREATE TABLE exported_tapes (
    medium_id TEXT NOT NULL,      -- the array
    tape TEXT NOT NULL,           -- the tape, as it is named in the array's device
    exported_us BIGINT NOT NULL,  -- when it left
    exported_to TEXT NOT NULL,    -- where it went; empty where nobody said
    PRIMARY KEY (medium_id, tape)
);
