-- From here on catalog files may be packed. Earlier versions of the program would find no files in them, so they must refuse
-- this database, as they do one with a step that they do not know.
SELECT 1;
