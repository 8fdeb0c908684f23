-- Money that a payment provider has received, and money that has to go back.

CREATE TABLE payments (
    -- The provider's id.
    id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- What the provider calls the order; there may be no such order.
    order_id CHAR(36) CHARACTER SET ascii NOT NULL,
    amount_cents BIGINT NOT NULL,
    -- accepted: it paid the order. refund_wanted: it has to go back. refund_requested: the provider
    -- was told so. refunded: it went back.
    status VARCHAR(16) CHARACTER SET ascii NOT NULL,
    -- Why it has to go back.
    reason VARCHAR(16) CHARACTER SET ascii NULL,
    -- Failed tries to tell the provider.
    failures INT UNSIGNED NOT NULL DEFAULT 0,
    last_error VARCHAR(300) CHARACTER SET utf8mb4 NULL,
    -- Times by the database's clock.
    next_try_at DATETIME(6) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    changed_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY payments_status (status, next_try_at),
    KEY payments_order (order_id)
) ENGINE = InnoDB;

-- The messages of the provider that were taken, so that each is taken once.
CREATE TABLE payment_messages (
    id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    received_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY payment_messages_received_at (received_at)
) ENGINE = InnoDB;
