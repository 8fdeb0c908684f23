-- Limits across items: "two of these five".

CREATE TABLE limit_groups (
    id BIGINT NOT NULL AUTO_INCREMENT,
    name VARCHAR(200) CHARACTER SET utf8mb4 NOT NULL,
    -- Units of all items of the group together that one buyer may hold or have bought.
    per_buyer_limit INT UNSIGNED NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;

-- The group of an item, and the group in which an order was counted: the order's units come back there,
-- wherever the item is by then. NULL: none.
ALTER TABLE items ADD COLUMN limit_group_id BIGINT NULL;
ALTER TABLE orders ADD COLUMN limit_group_id BIGINT NULL;

-- Every item that ever was in a group: where the audit finds the group's orders.
CREATE TABLE limit_group_items (
    group_id BIGINT NOT NULL,
    item_id BIGINT NOT NULL,
    PRIMARY KEY (group_id, item_id)
) ENGINE = InnoDB;

CREATE TABLE group_limits (
    group_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    -- Units of this buyer's orders that hold stock, of all items of the group.
    bought INT NOT NULL,
    -- The group's limit when the buyer last bought.
    allowed INT NOT NULL,
    PRIMARY KEY (group_id, user_id),
    -- The database itself refuses the unit too many.
    CONSTRAINT group_limits_within CHECK (bought <= allowed),
    CONSTRAINT group_limits_positive CHECK (bought >= 0)
) ENGINE = InnoDB;
