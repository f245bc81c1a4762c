-- Where the media of a pool are brought when they take no more.
ALTER TABLE pools ADD COLUMN vault TEXT;
