-- Since when a segment is known to be damaged where it lies on a medium. Nothing, where nobody found it so, and once it is whole there.
ALTER TABLE segment_places ADD COLUMN damaged_us BIGINT;
