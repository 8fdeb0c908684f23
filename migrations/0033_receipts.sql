-- The public logs of sales, from which buyers get receipts.

-- An item with a row here has a log. The row is locked while entries are appended.
CREATE TABLE receipt_logs (
    item_id BIGINT NOT NULL,
    -- Salts the names of orders and buyers; hexadecimal digits.
    secret CHAR(64) CHARACTER SET ascii NOT NULL,
    -- What the log promises: an answer comes into it within this time.
    delay_seconds INT UNSIGNED NOT NULL,
    -- The number of entries, and the nodes of their Merkle tree to which the next ones are joined.
    size BIGINT UNSIGNED NOT NULL DEFAULT 0,
    frontier TEXT CHARACTER SET ascii NOT NULL,
    -- What the entries add up to.
    units BIGINT NOT NULL DEFAULT 0,
    orders BIGINT NOT NULL DEFAULT 0,
    refusals BIGINT NOT NULL DEFAULT 0,
    -- The time of the last head, in microseconds since 1970.
    signed_at BIGINT NOT NULL DEFAULT 0,
    -- The end of the sale that the log has an entry for.
    ended_for DATETIME(6) NULL,
    PRIMARY KEY (item_id),
    -- Sales that are not over.
    KEY receipt_logs_ended_for (ended_for)
) ENGINE = InnoDB;

-- What happened and is not in the log yet: lines of text, written in the transaction in which it happened.
CREATE TABLE receipt_queue (
    id BIGINT NOT NULL AUTO_INCREMENT,
    item_id BIGINT NOT NULL,
    -- The time that `@` stands for in the lines, in microseconds since 1970.
    told_at BIGINT NOT NULL,
    entries MEDIUMTEXT CHARACTER SET ascii NOT NULL,
    PRIMARY KEY (item_id, id),
    KEY receipt_queue_id (id)
) ENGINE = InnoDB;

-- Append-only: the entries of a log in batches, each with the signed head behind it.
CREATE TABLE receipt_batches (
    item_id BIGINT NOT NULL,
    -- The position of the first entry.
    first_position BIGINT UNSIGNED NOT NULL,
    -- The number of entries with those of this batch.
    size BIGINT UNSIGNED NOT NULL,
    -- The nodes of the tree before this batch.
    frontier TEXT CHARACTER SET ascii NOT NULL,
    -- One entry a line.
    entries LONGTEXT CHARACTER SET ascii NOT NULL,
    root CHAR(64) CHARACTER SET ascii NOT NULL,
    -- In microseconds since 1970.
    signed_at BIGINT NOT NULL,
    units BIGINT NOT NULL,
    orders BIGINT NOT NULL,
    refusals BIGINT NOT NULL,
    -- The public key, and its signature.
    public_key CHAR(64) CHARACTER SET ascii NOT NULL,
    signature CHAR(128) CHARACTER SET ascii NOT NULL,
    PRIMARY KEY (item_id, first_position),
    -- A receipt is searched from the time of its answer on.
    KEY receipt_batches_signed_at (item_id, signed_at)
) ENGINE = InnoDB;
