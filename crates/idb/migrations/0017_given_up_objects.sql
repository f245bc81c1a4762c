-- Objects that were given up by their names, and when: nobody waits for their backups until there is a later one.
ALTER TABLE objects ADD COLUMN given_up_us BIGINT;
