-- Versions that somebody reads, with all that they build on: one row for each version of each lease. `place` is the boot and the space
-- of process numbers in which `pid`, begun at `started`, means that process. `beat` goes up as long as the process has the lease.
CREATE TABLE version_leases (
    lease TEXT NOT NULL,
    version_id TEXT NOT NULL,
    host TEXT NOT NULL,
    place TEXT NOT NULL,
    pid BIGINT NOT NULL,
    started TEXT NOT NULL,
    beat BIGINT NOT NULL,
    since_us BIGINT NOT NULL,
    PRIMARY KEY (lease, version_id)
);
CREATE INDEX version_leases_by_version ON version_leases (version_id);
