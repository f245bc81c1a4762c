-- What was backed up, by which session, and where it lies.
--
-- The SQL is kept to what SQLite and PostgreSQL both understand: identities are 32 hexadecimal digits made by the
-- application, times are microseconds since 1970, sealed bytes are hexadecimal, lists are JSON.

CREATE TABLE objects (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,           -- '' while the name is known only in encrypted form
    host TEXT NOT NULL,
    sealed TEXT                   -- the encrypted name, from an import without the key
);
CREATE INDEX objects_by_name ON objects (name);

CREATE TABLE media (
    id TEXT NOT NULL PRIMARY KEY,
    label TEXT NOT NULL,
    device TEXT NOT NULL,
    block_size BIGINT NOT NULL,
    created_us BIGINT NOT NULL
);
CREATE INDEX media_by_label ON media (label);

CREATE TABLE wrapped_keys (
    id TEXT NOT NULL PRIMARY KEY,
    record TEXT NOT NULL
);

-- base_id and key_id are no foreign keys: a medium can be imported before the medium of its base, or without the key.
CREATE TABLE versions (
    id TEXT NOT NULL PRIMARY KEY,
    object_id TEXT NOT NULL REFERENCES objects (id),
    status TEXT NOT NULL,
    method TEXT NOT NULL,
    base_id TEXT,
    key_id TEXT,
    null_device BOOLEAN NOT NULL,
    created_us BIGINT NOT NULL
);
CREATE INDEX versions_by_object ON versions (object_id, created_us);
CREATE INDEX versions_by_status ON versions (status);

-- parent_id is no foreign key, for the same reason.
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    object_id TEXT REFERENCES objects (id),
    version_id TEXT REFERENCES versions (id),
    parent_id TEXT,
    status TEXT NOT NULL,
    host TEXT NOT NULL,
    device TEXT NOT NULL,
    started_us BIGINT NOT NULL,
    ended_us BIGINT,
    files BIGINT NOT NULL,
    dirs BIGINT NOT NULL,
    bytes_read BIGINT NOT NULL,
    bytes_written BIGINT NOT NULL,
    tags TEXT NOT NULL,
    report TEXT,
    pid BIGINT NOT NULL,
    boot_id TEXT NOT NULL
);
CREATE INDEX sessions_by_start ON sessions (started_us);
CREATE INDEX sessions_by_version ON sessions (version_id);
CREATE INDEX sessions_by_status ON sessions (status);

CREATE TABLE segments (
    id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    blocks BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    committed_us BIGINT NOT NULL
);
CREATE INDEX segments_by_session ON segments (session_id);

-- Identity is separate from place: mirrors and copies hold the same segment on several media.
CREATE TABLE segment_places (
    segment_id TEXT NOT NULL REFERENCES segments (id),
    medium_id TEXT NOT NULL REFERENCES media (id),
    number BIGINT NOT NULL,
    PRIMARY KEY (segment_id, medium_id)
);
CREATE INDEX segment_places_by_medium ON segment_places (medium_id, number);

CREATE TABLE stream_parts (
    segment_id TEXT NOT NULL REFERENCES segments (id),
    stream_id TEXT NOT NULL,
    version_id TEXT NOT NULL REFERENCES versions (id),
    logical_start BIGINT NOT NULL,
    logical_end BIGINT NOT NULL,
    row_count BIGINT NOT NULL,
    PRIMARY KEY (segment_id, stream_id, version_id)
);
CREATE INDEX stream_parts_by_version ON stream_parts (version_id, segment_id);
