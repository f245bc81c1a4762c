-- Members of arrays of tapes that were not there, or not as they were last written, when somebody last looked: tapes are not loaded for it.
CREATE TABLE lost_members (
    medium_id TEXT NOT NULL,      -- the array
    member BIGINT NOT NULL,       -- its place, from 0
    device TEXT NOT NULL,         -- its device, as it was named then
    why TEXT NOT NULL,
    PRIMARY KEY (medium_id, member)
);
