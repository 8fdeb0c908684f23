-- Refusals of a replay's next event are counted apart from those of the log: new events that are delivered between two
-- tries would forget them, and the replay would never end.
ALTER TABLE event_replays ADD COLUMN refusals INT UNSIGNED NOT NULL DEFAULT 0;
