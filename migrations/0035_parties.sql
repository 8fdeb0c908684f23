-- Friends who are drawn as one.

-- The most buyers of one party; 1: each buyer is drawn alone.
ALTER TABLE draws ADD COLUMN party_max TINYINT UNSIGNED NOT NULL DEFAULT 1;

-- The members of a party.
ALTER TABLE draw_entries ADD KEY draw_entries_party (item_id, party);

-- Friends stand in the line side by side, and are offered units together or not at all: when fewer units are left than
-- the party has members who wait, the next buyers in the line are offered them.
ALTER TABLE waiting_list
    ADD COLUMN party CHAR(32) CHARACTER SET ascii NULL,
    ADD COLUMN party_size TINYINT UNSIGNED NOT NULL DEFAULT 1;
