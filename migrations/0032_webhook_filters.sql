-- Endpoints that get a part of the events.

-- Which: JSON with types, items and currencies; NULL: all events.
ALTER TABLE event_endpoints ADD COLUMN filter VARCHAR(8000) CHARACTER SET utf8mb4 NULL;
