-- How much of a payment went back: a refund may be of a part.
-- A payment whose refund was told first has the amount 0 until the payment itself is told.
ALTER TABLE payments
    ADD COLUMN refunded_cents BIGINT NOT NULL DEFAULT 0,
    -- The currency; NULL: that of the shop.
    ADD COLUMN currency VARCHAR(16) CHARACTER SET ascii NULL;

-- Each refund that the provider told, by its message, so that it is counted once.
CREATE TABLE payment_refunds (
    payment_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    message_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    amount_cents BIGINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (payment_id, message_id)
) ENGINE = InnoDB;
