-- The currency of each item.

-- ISO 4217; NULL, as builds before this one write it: that of the row below. Orders have no currency of their own:
-- that of an item does not change once it has orders.
ALTER TABLE items ADD COLUMN currency CHAR(3) CHARACTER SET ascii NULL;

-- One row: the currency of items and payments that have none. The first `seckill migrate` of this build writes the
-- setting payment.currency here, and nothing changes it afterwards.
CREATE TABLE shop_currency (
    id TINYINT NOT NULL,
    code CHAR(3) CHARACTER SET ascii NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;
