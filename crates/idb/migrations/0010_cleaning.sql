-- The drives in which a tape asked for cleaning, as a JSON list of their names: in two of them it is the tape's fault.
ALTER TABLE media_management ADD COLUMN cleaning_drives TEXT;
