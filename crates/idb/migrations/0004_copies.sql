-- Which segments are copies of others: the same frames, cut into blocks anew, on another medium.
--
-- No foreign keys: the original may never have been seen here, and either may be removed without the other.

CREATE TABLE segment_copies (
    segment_id TEXT NOT NULL PRIMARY KEY,
    origin_id TEXT NOT NULL
);
