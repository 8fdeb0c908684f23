-- A row for each unit that the strategy mysql-unit-rows may take now: a part of the units that `stock` has left,
-- at most 1,000 of an item.
CREATE TABLE unit_rows (
    item_id BIGINT NOT NULL,
    -- 1 to 1,000. Numbers are used again, so a scan never meets more rows than this, deleted ones included.
    unit INT UNSIGNED NOT NULL,
    -- NULL: free. Without an arbiter, the order that took the unit, until `stock` counts it.
    order_id CHAR(36) CHARACTER SET ascii NULL,
    PRIMARY KEY (item_id, unit)
) ENGINE = InnoDB;
