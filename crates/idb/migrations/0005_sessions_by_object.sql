-- What an object's earlier sessions did is looked up at the end of each backup, by drills, and for its status.
CREATE INDEX sessions_by_object ON sessions (object_id, started_us);
