-- Sales that are drawn: buyers enter until the close, then a published shuffle gives each entry its place.

-- An item with a row here is drawn. Hashes, keys and ids are hexadecimal digits, as the proof publishes them.
CREATE TABLE draws (
    item_id BIGINT NOT NULL,
    -- Secret until the value of the round is known.
    seed CHAR(64) CHARACTER SET ascii NOT NULL,
    -- What is published before the sale opens; the commitment is a hash of seed and rules.
    rules VARCHAR(1000) CHARACTER SET ascii NOT NULL,
    commitment CHAR(64) CHARACTER SET ascii NOT NULL,
    -- drand-quicknet or local.
    beacon VARCHAR(16) CHARACTER SET ascii NOT NULL,
    round BIGINT UNSIGNED NOT NULL,
    -- Times by the database's clock. Buyers enter until closes_at; closed_at is when no entry could change any more.
    closes_at DATETIME(6) NOT NULL,
    closed_at DATETIME(6) NULL,
    -- The list of entries was published: their number and the root of their Merkle tree.
    listed_at DATETIME(6) NULL,
    entries INT UNSIGNED NULL,
    root CHAR(64) CHARACTER SET ascii NULL,
    -- The round's value, and the beacon's signature that it is the hash of.
    beacon_signature VARCHAR(200) CHARACTER SET ascii NULL,
    beacon_value CHAR(64) CHARACTER SET ascii NULL,
    -- Entries that have their places, always the first ones: an instance goes on where another one was killed.
    placed INT UNSIGNED NOT NULL DEFAULT 0,
    drawn_at DATETIME(6) NULL,
    PRIMARY KEY (item_id),
    -- Draws that are due.
    KEY draws_due (drawn_at, closes_at)
) ENGINE = InnoDB;

-- The entries. Rows are inserted and deleted under the shared lock of the item's stock row, and only before the close.
CREATE TABLE draw_entries (
    item_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    -- Random: the published list does not show who it is.
    entry CHAR(32) CHARACTER SET ascii NOT NULL,
    -- The same for friends who are drawn together; the entry's own id for all others.
    party CHAR(32) CHARACTER SET ascii NOT NULL,
    entered_at DATETIME(6) NOT NULL,
    -- From 1; NULL until it is drawn.
    place INT UNSIGNED NULL,
    PRIMARY KEY (item_id, user_id),
    -- The published list is in this order.
    UNIQUE KEY draw_entries_entry (item_id, entry)
) ENGINE = InnoDB;
