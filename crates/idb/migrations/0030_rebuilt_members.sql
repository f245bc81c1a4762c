-- Members of arrays that were written anew: which medium has the place now. Who else says it has it was replaced.
CREATE TABLE rebuilt_members (
    array_id TEXT NOT NULL,       -- the medium that the array is; also of an array that is a member of another one
    member BIGINT NOT NULL,       -- its place, from 0
    medium_id TEXT NOT NULL,
    turn BIGINT NOT NULL,         -- how often the place was given to another one
    PRIMARY KEY (array_id, member)
);
