-- Orders that have left the ledger for a file, and what stays of them: their sums.

-- 0: the item's orders are here. 1: they are being archived. 2: they are archived. Above 0 neither the orders
-- nor the stock of the item change any more, except that rows leave and their sums grow.
ALTER TABLE stock ADD COLUMN archive TINYINT UNSIGNED NOT NULL DEFAULT 0;

-- One row for each item whose orders are being archived, or are.
CREATE TABLE archives (
    item_id BIGINT NOT NULL,
    -- The file in `retention.dir`; empty until it is written and compared with the ledger.
    file VARCHAR(100) CHARACTER SET ascii NOT NULL DEFAULT '',
    -- SHA-256 of the file.
    digest CHAR(64) CHARACTER SET ascii NOT NULL DEFAULT '',
    -- What the file has: the rows that are still here and the sums of those that have left add up to it.
    orders BIGINT NOT NULL DEFAULT 0,
    quantity BIGINT NOT NULL DEFAULT 0,
    amount_cents BIGINT NOT NULL DEFAULT 0,
    movements BIGINT NOT NULL DEFAULT 0,
    delta BIGINT NOT NULL DEFAULT 0,
    -- Times by the database's clock.
    started_at DATETIME(6) NOT NULL,
    ended_at DATETIME(6) NULL,
    PRIMARY KEY (item_id)
) ENGINE = InnoDB;

-- The orders that have left, added up in the transaction that deletes them.
CREATE TABLE archived_orders (
    item_id BIGINT NOT NULL,
    -- The group in which they were counted; 0: none.
    limit_group_id BIGINT NOT NULL,
    status VARCHAR(10) CHARACTER SET ascii NOT NULL,
    orders BIGINT NOT NULL,
    quantity BIGINT NOT NULL,
    amount_cents BIGINT NOT NULL,
    PRIMARY KEY (item_id, limit_group_id, status),
    KEY archived_orders_group (limit_group_id)
) ENGINE = InnoDB;

-- Their movements of stock.
CREATE TABLE archived_movements (
    item_id BIGINT NOT NULL,
    reason VARCHAR(16) CHARACTER SET ascii NOT NULL,
    movements BIGINT NOT NULL,
    delta BIGINT NOT NULL,
    PRIMARY KEY (item_id, reason)
) ENGINE = InnoDB;
