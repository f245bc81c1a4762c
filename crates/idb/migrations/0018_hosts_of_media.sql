-- Which hosts wrote a medium, or took it in, at the place that is recorded: a JSON list, who did so last is last. Nothing, of media
-- that were recorded before hosts were.
ALTER TABLE media ADD COLUMN hosts TEXT;
