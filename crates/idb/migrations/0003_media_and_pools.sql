-- Media and pools: what an administrator decides about media, and what happened to them. Of the media themselves this
-- cannot be had again, so it is part of the database's own backup.

-- What a home is and remembers, by name: "cell" is the identity of the cell.
CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE pools (
    name TEXT NOT NULL PRIMARY KEY,
    allocation TEXT NOT NULL,     -- loose, strict
    appendable BOOLEAN NOT NULL,
    free_pool TEXT REFERENCES pools (name),
    rotation TEXT NOT NULL        -- rotation sets as JSON: how many media each has, in the order daily, weekly, monthly
);

-- A medium without a row is in no pool and has no history.
CREATE TABLE media_management (
    medium_id TEXT NOT NULL PRIMARY KEY REFERENCES media (id),
    pool TEXT REFERENCES pools (name),
    rotation_set TEXT,
    first_us BIGINT NOT NULL,     -- when it was first initialised: recycling makes it no younger
    passes BIGINT NOT NULL,       -- sessions that wrote on it before it was last recycled
    errors BIGINT NOT NULL,       -- failed writes and verifications that found damage, in its whole life
    damaged_us BIGINT,            -- when damage was found that no later verification took back
    exported_us BIGINT,
    exported_to TEXT
);
CREATE INDEX media_management_by_pool ON media_management (pool);

-- Sessions whose catalogs are not kept as a whole, and what is kept: files, directories, none.
CREATE TABLE session_logging (
    session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id),
    level TEXT NOT NULL
);
