-- Pools that take blank tapes of libraries by themselves, of which, and what they call their media.
ALTER TABLE pools ADD COLUMN scratch BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE pools ADD COLUMN libraries TEXT NOT NULL DEFAULT '[]'; -- JSON: their device names; none: those where the cell has media
ALTER TABLE pools ADD COLUMN label_rule TEXT;
