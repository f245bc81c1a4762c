-- Until when a version is kept. Times are microseconds since 1970; in the first two columns NULL is the default, 0 not
-- protected, 9223372036854775807 for ever.

ALTER TABLE versions ADD COLUMN protected_until_us BIGINT;  -- NULL: keep rules decide
ALTER TABLE versions ADD COLUMN catalog_until_us BIGINT;    -- NULL: as long as the version
ALTER TABLE versions ADD COLUMN locked_until_us BIGINT;     -- only ever raised
ALTER TABLE versions ADD COLUMN expired_us BIGINT;          -- since when it is given up; never cleared
