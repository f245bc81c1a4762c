-- What was found on tapes of libraries that hold no medium that is known: they are not loaded again for it.
CREATE TABLE seen_tapes (
    library TEXT NOT NULL,        -- the device name of the library
    barcode TEXT NOT NULL,
    slot BIGINT NOT NULL,         -- where the tape belongs; one that is elsewhere may be another tape of that barcode
    what TEXT NOT NULL,           -- blank, foreign, write-protected, unreadable, other-cell, member, cleaning
    detail TEXT NOT NULL,         -- of what it seems to be, or why
    seen_us BIGINT NOT NULL,
    PRIMARY KEY (library, barcode)
);
