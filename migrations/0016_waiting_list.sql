-- Buyers who wait for units that come back.

-- For how long an offer holds a unit for the first buyer in the line; 0: the item has no waiting list.
ALTER TABLE items ADD COLUMN offer_seconds INT UNSIGNED NOT NULL DEFAULT 300;

-- Units that open offers hold. They are neither available nor sold:
-- total = available + offered + units of orders that hold stock.
ALTER TABLE stock ADD COLUMN offered BIGINT NOT NULL DEFAULT 0;

-- The lines of all items. A row waits for one unit. Rows change only under the lock of the item's stock
-- row, which orders returns, offers and acceptances.
CREATE TABLE waiting_list (
    -- Rises: a smaller number of the same item is served first.
    place BIGINT NOT NULL AUTO_INCREMENT,
    item_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    -- waiting; offered; then accepted, lapsed (not accepted in time), left or ended (with the sale).
    status VARCHAR(10) CHARACTER SET ascii NOT NULL,
    -- 1 while it is waiting or offered, then NULL: so a buyer is in a line once.
    live TINYINT NULL,
    -- Times by the database's clock.
    joined_at DATETIME(6) NOT NULL,
    offered_at DATETIME(6) NULL,
    offer_expires_at DATETIME(6) NULL,
    closed_at DATETIME(6) NULL,
    -- The order that the accepted offer became.
    order_id CHAR(36) CHARACTER SET ascii NULL,
    PRIMARY KEY (place),
    UNIQUE KEY waiting_list_live (item_id, user_id, live),
    -- The line of an item, and the items that have one.
    KEY waiting_list_line (status, item_id, place),
    -- Offers that have lapsed.
    KEY waiting_list_offers (status, offer_expires_at)
) ENGINE = InnoDB;
