-- What media lost of versions, since somebody took a medium as it is: which segment (the original, of a copy), of which version, which
-- medium had it, and when it was said. A version is whole again when a place of all of these segments is known again.
--
-- No foreign keys: segments and media may be forgotten.

CREATE TABLE lost_segments (
    segment_id TEXT NOT NULL,
    version_id TEXT NOT NULL,
    medium TEXT NOT NULL,
    lost_us BIGINT NOT NULL,
    PRIMARY KEY (version_id, segment_id)
);
