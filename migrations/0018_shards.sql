-- Where each item lives; only the home ledger's rows count. An item without a row lives in shard 0, epoch 1.
CREATE TABLE item_homes (
    item_id BIGINT NOT NULL AUTO_INCREMENT,
    shard SMALLINT UNSIGNED NOT NULL,
    epoch BIGINT UNSIGNED NOT NULL DEFAULT 1,
    PRIMARY KEY (item_id),
    KEY item_homes_shard (shard)
) ENGINE = InnoDB;
-- Moves of items, under way and ended; in the home ledger.
CREATE TABLE item_moves (
    item_id BIGINT NOT NULL,
    -- The epoch that the item has after the move.
    epoch BIGINT UNSIGNED NOT NULL,
    source SMALLINT UNSIGNED NOT NULL,
    target SMALLINT UNSIGNED NOT NULL,
    -- copying, closed, flipped, done, or given_up
    state VARCHAR(12) CHARACTER SET ascii NOT NULL,
    started_at DATETIME(6) NOT NULL,
    closed_at DATETIME(6) NULL,
    flipped_at DATETIME(6) NULL,
    ended_at DATETIME(6) NULL,
    PRIMARY KEY (item_id, epoch)
) ENGINE = InnoDB;
-- The fence of a stale route: every write of an item names the epoch of the route that led to it.
ALTER TABLE stock ADD COLUMN home_epoch BIGINT UNSIGNED NOT NULL DEFAULT 1;
