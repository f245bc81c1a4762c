-- Backups and runs that were refused or went wrong before there was a session that says so: the last of each, until one goes well.
CREATE TABLE refusals (
    kind TEXT NOT NULL,           -- backup: of an object, by its name; run: of a specification, by its path
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    refused_us BIGINT NOT NULL,
    code BIGINT NOT NULL,         -- the exit code
    reason TEXT NOT NULL,
    PRIMARY KEY (kind, name, host)
);
