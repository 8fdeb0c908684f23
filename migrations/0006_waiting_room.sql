-- Whether buyers of an item stand in line for a purchase ticket first.
ALTER TABLE items ADD COLUMN waiting_room BOOLEAN NOT NULL DEFAULT FALSE;
